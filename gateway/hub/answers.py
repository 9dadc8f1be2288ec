"""An answer is a value, or a Future of one. One function continues either, so that what need not wait never does."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable
    from typing import TypeGuard, TypeVar

    from .ports import Answer

    T = TypeVar("T")
    U = TypeVar("U")


def waits(answer: Answer[T]) -> TypeGuard[Future[T]]:
    """Tell whether an answer is a Future. Without importing asyncio, which the first answer does not need."""
    return hasattr(answer, "add_done_callback")


def then(
    answer: Answer[T],
    done: Callable[[T], U],
    failed: Callable[[BaseException], BaseException] | None = None,
) -> Answer[U]:
    """Continue with `done(value)`, now or when the Future is done. `failed` may turn one exception into another.

    `done` runs also when nobody waits any more (the outer Future was cancelled), because what it records is true.
    """
    if not waits(answer):
        return done(answer)  # type: ignore[arg-type]  # a TypeGuard says nothing of the other branch
    outer: Future[U] = answer.get_loop().create_future()

    def finish(inner: Future[T]) -> None:
        try:
            value = done(inner.result())
        except BaseException as error:
            fault = failed(error) if failed is not None else error
            if not outer.done():
                outer.set_exception(fault)
                return
            if not isinstance(error, Exception):
                raise
        else:
            if not outer.done():
                outer.set_result(value)

    answer.add_done_callback(finish)
    return outer
