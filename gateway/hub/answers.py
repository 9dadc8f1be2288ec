"""An answer is a value, or a Future of one. One function continues either, so that what need not wait never does."""

from __future__ import annotations

from ...protocol.errors import HarnessFault, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable
    from typing import Any, TypeGuard, TypeVar

    from .ports import Answer

    T = TypeVar("T")
    U = TypeVar("U")


def waits(answer: Answer[T]) -> TypeGuard[Future[T]]:
    """Tell whether an answer is a Future. Without importing asyncio, which the first answer does not need."""
    return hasattr(answer, "add_done_callback")


def then(
    ask: Callable[[], Answer[T]],
    done: Callable[[T], U],
    failed: Callable[[Exception], U],
) -> Answer[U]:
    """Ask, and continue with `done(value)` or `failed(error)`, now or when the Future is done.

    `failed` returns a value in place of the error, or raises what the asker is to see. An error of `done` counts too.
    Both run also when nobody waits any more (the outer Future was cancelled), because what they record is true. A
    Future that the adapter itself cancelled is an error like any other: only the waiter's own cancellation is one.
    """
    try:
        answer = ask()
        if not waits(answer):
            return done(answer)  # type: ignore[arg-type]  # a TypeGuard says nothing of the other branch
    except Exception as error:
        return failed(error)
    outer: Future[U] = answer.get_loop().create_future()

    def finish(inner: Future[T]) -> None:
        try:
            try:
                if inner.cancelled():
                    raise HarnessFault("cancelled", "the adapter gave the request up")
                value = done(inner.result())
            except Exception as error:
                value = failed(error)
        except Exception as error:
            if not outer.done():
                outer.set_exception(error)
        else:
            if not outer.done():
                outer.set_result(value)

    answer.add_done_callback(finish)
    return outer


def forget(answer: Any) -> None:
    """Let an answer go that nobody waits for; its error was dealt with by whoever asked."""
    if waits(answer):
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())


def trouble(error: Exception, code: str, most: int) -> Refusal:
    """Return what a host is told of an adapter's error: a refusal as it is, anything else under `code`, bounded."""
    if isinstance(error, Refusal):
        return error
    text = str(error) or type(error).__name__
    details = {"cause": error.code} if isinstance(error, HarnessFault) else None
    return Refusal(code, text if len(text) <= most else text[:most] + "…", details)
