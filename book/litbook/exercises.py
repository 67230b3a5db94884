"""How exercises are checked: an answer gets its verdict in one line, and every check is shown to
catch what it should."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping


def unwritten(answer: Callable) -> bool:
    """Is this still the stub: nothing but `...`, `pass` or a docstring under the signature?

    Told by its source, not by a call: a stub returns None, and a check of None would complain about
    shapes that nobody has written. What has no readable source counts as written."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(answer)))
    except (OSError, TypeError, SyntaxError):
        return False
    body = getattr(tree.body[0], "body", None)
    return isinstance(body, list) and all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in body
    )


def verdict(check: Callable, answer: Callable) -> str:
    """In words: right, not written yet, or what is wrong; never a traceback.

    `check(answer)` raises AssertionError with a hint, the likely mistakes first."""
    if unwritten(answer):
        return "not written yet"
    try:
        check(answer)
    except AssertionError as hint:
        return f"not yet. {hint}"
    except Exception as error:
        return f"it stopped with {type(error).__name__}: {error}"
    return "right"


def check_answer(check: Callable, answer: Callable) -> None:
    'Print the verdict on your answer: "right", "not written yet", or what is wrong.'
    print(f"{getattr(answer, '__name__', 'your answer')}: {verdict(check, answer)}")


def check_wrong_answers(check: Callable, right: Callable, wrong: Mapping[str, Callable]) -> None:
    """Prove a check: the solution passes, and each wrong answer fails for the reason that it
    stands for.

    `wrong` maps words that the hint must hold to a wrong answer. Raises AssertionError."""
    check(right)
    for words, answer in wrong.items():
        try:
            check(answer)
        except AssertionError as hint:
            if words not in str(hint):
                raise AssertionError(f"{words!r} was expected, and the hint says {hint}") from None
        else:
            raise AssertionError(f"the check lets {words!r} through")
    print(f"the solution passes, {len(wrong)} wrong answers are caught")
