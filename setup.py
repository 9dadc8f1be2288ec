"""Build the optional accelerators; every static fact is in pyproject.toml.

TRUNKLINE_SPEEDUPS=no builds none, =yes fails when one fails, unset builds what it can.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

WANTED = os.environ.get("TRUNKLINE_SPEEDUPS", "")
SOURCES = [] if WANTED == "no" else sorted(Path("_speedups").glob("*.pyx"))

setup(
    ext_modules=[
        Extension(
            f"trunkline._speedups.{source.stem}",
            [source.as_posix()],
            depends=[included.as_posix() for included in Path("_speedups").glob("*.pxi")],
            extra_compile_args=["-O3"],
            optional=WANTED != "yes",
        )
        for source in SOURCES
    ],
    # Generated C goes to the build folder: it can be neither stale nor shipped.
    options={"build_ext": {"cython_c_in_temp": True}},
)
