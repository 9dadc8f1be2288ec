"""The capability descriptor of one adapter under one revision, and the two ranks that every feature passes.

Levels: `native`, `emulated`, `degraded` are affirmative; `unavailable`, an absent key and an unknown level are not
(spec: envelopes 1, 13, 17).
"""

from __future__ import annotations

from . import names
from .errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

_UNAVAILABLE = names.LEVELS[3]
_DEGRADED = names.LEVELS[2]


class Descriptor:
    """One `capabilities.response` payload and the revision that names it; read-only."""

    __slots__ = ("_features", "payload", "revision")

    def __init__(self, revision: str, payload: Mapping[str, Any]) -> None:
        self.revision = revision
        self.payload = payload
        self._features = _effective(payload)

    def feature(self, key: str) -> Mapping[str, Any]:
        """Return the support record in effect for a key: top level, else the first layer by name; `{}` if none."""
        return self._features.get(key, {})

    def level(self, key: str) -> str:
        """Return one of the four levels; an absent key or unknown level is `unavailable`."""
        level = self._features.get(key, {}).get("level")
        return level if level in names.LEVELS else _UNAVAILABLE

    def affirmative(self, key: str) -> bool:
        """Say whether the feature is there at all."""
        return self.level(key) in names.AFFIRMATIVE

    def usable(self, key: str, allow: Collection[str] = ()) -> bool:
        """Say whether a request that allows these degraded features may use this one."""
        return refuse_feature(self, key, allow) is None

    def modes(self, key: str) -> Collection[str]:
        """Return the modes that a feature discloses, or none."""
        modes: Collection[str] = self.feature(key).get("modes", ())
        return modes

    def feature_limit(self, key: str, name: str) -> Any:
        """Return one disclosed limit of a feature, or None."""
        return self.feature(key).get("limits", {}).get(name)

    def limit(self, name: str) -> int | None:
        """Return one limit of the descriptor itself, for instance `max_queued_runs_per_session`, or None."""
        limit: int | None = self.payload.get("limits", {}).get(name)
        return limit

    def sources(self) -> list[Mapping[str, Any]]:
        """Return the effective tool sources: top level, then layers in the order of their names."""
        return self._listed("sources")

    def tools(self) -> list[Mapping[str, Any]]:
        """Return the effective tools: top level, then layers in the order of their names."""
        return self._listed("tools")

    def _listed(self, member: str) -> list[Mapping[str, Any]]:
        layers = self.payload.get("layers", {})
        return [
            item for part in (self.payload, *(layers[name] for name in sorted(layers))) for item in part.get(member, ())
        ]


def _effective(payload: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    top: Mapping[str, Mapping[str, Any]] = payload.get("features", {})
    layers = payload.get("layers")
    if not layers:
        return top
    merged: dict[str, Mapping[str, Any]] = {}
    for name in sorted(layers, reverse=True):
        merged.update(layers[name].get("features", {}))
    merged.update(top)
    return merged


def refuse_feature(descriptor: Descriptor, key: str, allow: Collection[str]) -> Refusal | None:
    """Judge one feature by ranks 1 and 2 (spec: envelopes 13).

    Not affirmative: `unsupported_feature` with `feature` and `reason: unadvertised`. Degraded and not in `allow`, the
    request's `allow_degraded_features`: `capability_degraded` with `feature`.
    """
    level = descriptor.level(key)
    if level not in names.AFFIRMATIVE:
        return unadvertised(key)
    if level == _DEGRADED and key not in allow:
        return degraded(key)
    return None


def refuse_stale(descriptor: Descriptor, cited: str | None) -> Refusal | None:
    """Judge the revision that a request cites; None, nothing cited, is never stale (spec: envelopes 6, 19, 20).

    `expected_revision` is what the request cited, `current_revision` the one in force.
    """
    if cited is None or cited == descriptor.revision:
        return None
    return Refusal(
        names.STALE_CAPABILITIES,
        "the cited capability revision is not the current one; ask for the capabilities again",
        {"expected_revision": cited, "current_revision": descriptor.revision},
    )


def unadvertised(key: str) -> Refusal:
    """Return the refusal of rank 1."""
    return Refusal(
        names.UNSUPPORTED_FEATURE, f"{key} is not offered here", {"feature": key, "reason": names.UNADVERTISED}
    )


def degraded(key: str) -> Refusal:
    """Return the refusal of rank 2."""
    return Refusal(
        names.CAPABILITY_DEGRADED,
        f"{key} is degraded here; name it in allow_degraded_features to use it so",
        {"feature": key},
    )


def unsatisfiable(key: str, why: str, **culprit: str) -> Refusal:
    """Return a refusal of rank 3; `culprit` is at most one of `tool`, `field`, `source`; `why` is short."""
    return Refusal(names.UNSUPPORTED_FEATURE, why, {"feature": key, "reason": names.UNSATISFIABLE, **culprit})
