"""The public schema bundle as a judge, and envelopes to put before it: recorded, sampled from it, and mutated."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tests.support.shared import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

BASE = "https://open-agent-protocol.local/v0.1/"
ROOT = "envelope.schema.json"


class Bundle:
    """A bundle of schema files, judged branch by branch: the root's `oneOf` pins `type`, so that one branch decides."""

    def __init__(self, files: dict[str, Any]) -> None:
        self.files = files
        resources = [(BASE + name, DRAFT202012.create_resource(contents)) for name, contents in files.items()]
        self.registry: Registry[Any] = Registry().with_resources(resources)
        root = files[ROOT]
        self.branches = {
            definition["properties"]["type"]["const"]: name
            for name, definition in root["$defs"].items()
            if "type" in definition.get("properties", {})
        }
        self.header = self._validator({"$ref": f"{BASE}{ROOT}#/header"})
        self.validators = {
            kind: self._validator({"$ref": f"{BASE}{ROOT}#/$defs/{name}"}) for kind, name in self.branches.items()
        }

    def _validator(self, schema: dict[str, Any]) -> Any:
        header = {name: value for name, value in self.files[ROOT].items() if name not in ("oneOf", "$defs")}
        root = DRAFT202012.create_resource(self.files[ROOT] | {"header": header})
        return Draft202012Validator(schema, registry=self.registry.with_resource(BASE + ROOT, root))

    def accepts(self, envelope: Any) -> bool:
        if not self.header.is_valid(envelope):
            return False
        validator = self.validators.get(envelope["type"])
        return validator is not None and bool(validator.is_valid(envelope))


@cache
def public_bundle() -> Bundle:
    assert SHARED is not None
    files = {path.name: json.loads(path.read_text()) for path in (SHARED / "oap" / "schema" / "v0.1").glob("*.json")}
    return Bundle({name: value for name, value in files.items() if name.partition(".")[0] not in ("pack", "manifest")})


def recorded_texts(path: Path) -> Iterator[str]:
    """Yield the text of every item of a file: the items of its array, the lines of an ndjson file, or the file."""
    text = path.read_text()
    if path.suffix == ".ndjson":
        yield from text.splitlines()
        return
    if not text.lstrip().startswith("["):
        yield text
        return
    decoder = json.JSONDecoder()
    at = text.index("[") + 1
    while True:
        while text[at].isspace() or text[at] == ",":
            at += 1
        if text[at] == "]":
            return
        end = decoder.raw_decode(text, at)[1]
        yield text[at:end]
        at = end


def envelopes_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object below a value that says which protocol it speaks."""
    if isinstance(value, dict):
        if "protocol" in value:
            yield value
        else:
            for below in value.values():
                yield from envelopes_in(below)
    elif isinstance(value, list):
        for below in value:
            yield from envelopes_in(below)


class Sampler:
    """Makes envelopes by walking a bundle: mostly what the schema asks for, members left out by chance."""

    def __init__(self, bundle: Bundle, random: Random, chance: float) -> None:
        self.bundle = bundle
        self.random = random
        self.chance = chance

    def envelope(self, kind: str) -> dict[str, Any]:
        root = self.bundle.files[ROOT]
        made = {name: self.value(schema, ROOT) for name, schema in root["properties"].items()}
        branch = root["$defs"][self.bundle.branches[kind]]
        made["type"] = kind
        made["payload"] = self.value(branch["properties"]["payload"], ROOT)
        required = {*root["required"], *branch.get("required", ())}
        for part in branch.get("allOf", ()):
            required |= set(root["$defs"][part["$ref"].rpartition("/")[2]]["required"])
        return {name: value for name, value in made.items() if name in required or self.random.random() < self.chance}

    def valid(self, kind: str) -> dict[str, Any]:
        """Return an envelope that the bundle accepts; rules between members are met by trying."""
        for _ in range(2000):
            envelope = self.envelope(kind)
            if self.bundle.accepts(envelope):
                return envelope
        raise AssertionError(f"no valid {kind} came up")

    def value(self, schema: Any, file: str) -> Any:
        if schema is True:
            return self.random.choice([None, True, 0, -1.5, "x", [], [1, {"a": None}], {}, {"a": [1]}])
        if "$ref" in schema:
            name, _, place = schema["$ref"].partition("#/$defs/")
            return self.value(self.bundle.files[name or file]["$defs"][place], name or file)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if "oneOf" in schema and "properties" not in schema:
            return self.value(self.random.choice(schema["oneOf"]), file)
        kind: str = schema["type"]
        if kind == "object":
            return self.members(schema, file)
        if kind == "array":
            least = schema.get("minItems", 0)
            return [self.value(schema["items"], file) for _ in range(self.random.randint(least, least + 2))]
        choices: dict[str, list[Any]] = {
            "string": ["a", "b", "née", "x" * 40] if schema.get("minLength") else ["", "a"],
            "integer": [schema.get("minimum", -3), 7, (1 << 63) - 1],
            "boolean": [True, False],
            "null": [None],
        }
        return self.random.choice(choices[kind])

    def members(self, schema: Any, file: str) -> dict[str, Any]:
        required = schema.get("required", ())
        made = {
            name: self.value(below, file)
            for name, below in schema.get("properties", {}).items()
            if name in required or self.random.random() < self.chance
        }
        more = schema.get("additionalProperties", True)
        if isinstance(more, dict):
            made |= {
                name: self.value(more, file) for name in ("k", "com.example/k~") if self.random.random() < self.chance
            }
        elif more and self.random.random() < self.chance:
            made["free"] = {"a": [1, 2.5, None]}
        return made


WORST: tuple[Any, ...] = (
    None,
    True,
    "",
    "text",
    "running",
    0,
    -1,
    1.0,
    -2.0,
    2.5,
    1 << 63,
    -(1 << 63) - 1,
    1 << 70,
    1e300,
    [],
    ["a", "a"],
    ["", 1],
    [{}],
    {},
    {"a": 1},
)


def mutations(value: Any, keep: frozenset[str] = frozenset()) -> Iterator[Any]:
    """Yield copies of a JSON value with one place changed: a member dropped, added or replaced by the worst."""
    if isinstance(value, dict):
        yield value | {"surplus": 1}
        for name, below in value.items():
            if name in keep:
                continue
            yield {other: item for other, item in value.items() if other != name}
            for worst in WORST:
                yield value | {name: worst}
            for changed in mutations(below):
                yield value | {name: changed}
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield value[:index] + value[index + 1 :]
            yield [*value[: index + 1], *value[index:]]
            for changed in (*WORST, *mutations(below)):
                yield [*value[:index], changed, *value[index + 1 :]]
