"""Mutants: the function and the fold with one small mistake each, as a programmer could make it.

The operators: a comparison is flipped, `and` becomes `or`, a condition is negated, a whole number is
one more, a sum becomes a difference, a statement is removed, the first two arguments are swapped. A
mutant is named by where it is and what it changes, not by a line number, so that what is recorded about one
stays true when lines move.
"""

import ast
import copy
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """The whole text with one mistake."""

    name: str
    """``FUNCTION: OPERATOR: LINE``, with a number if the line has several."""
    make: Callable[[], str]

    @property
    def text(self) -> str:
        """Made when it is asked for."""
        return self.make()

    @property
    def operator(self) -> str:
        """What kind of mistake it is."""
        return self.name.split(": ")[1]


def numbered(found: Iterable[tuple[str, Callable[[], str]]]) -> list[Mutant]:
    """Names and texts as mutants; of equal names all but the first get a number."""
    seen: Counter[str] = Counter()
    made = []
    for name, make in found:
        seen[name] += 1
        made.append(Mutant(name if seen[name] == 1 else f"{name} #{seen[name]}", make))
    return made


# -- Python ----------------------------------------------------------------------------------

_FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_REMOVED = (ast.Assign, ast.AugAssign, ast.Delete, ast.Return, ast.Continue)


def of_python(text: str) -> list[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(text)
    lines = text.splitlines()
    found: list[tuple[str, Callable[[], str]]] = []
    for index, (where, node) in enumerate(_functions(tree)):
        line = lines[getattr(node, "lineno", 1) - 1].strip()
        for operator, number in _operators(node):
            make = functools.partial(_changed, tree, index, operator, number)
            found.append((f"{where}: {operator}: {line}", make))
    return numbered(found)


def _changed(tree: ast.Module, index: int, operator: str, number: int) -> str:
    changed = copy.deepcopy(tree)
    _, node = list(_functions(changed))[index]
    _apply(node, operator, number, changed)
    return ast.unparse(ast.fix_missing_locations(changed))


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Every node inside a function, with the function's name, in a fixed order."""
    for outer in tree.body:
        inner = outer.body if isinstance(outer, ast.ClassDef) else [outer]
        for one in inner:
            if isinstance(one, ast.FunctionDef):
                prefix = f"{outer.name}." if isinstance(outer, ast.ClassDef) else ""
                for statement in one.body:
                    if not _is_docstring(statement):
                        yield from ((prefix + one.name, node) for node in ast.walk(statement))


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _operators(node: ast.AST) -> Iterator[tuple[str, int]]:
    """What can be done to a node: an operator, and to which part of it."""
    match node:
        case ast.Compare(ops=ops):
            yield from (("flip", at) for at, op in enumerate(ops) if type(op) in _FLIPS)
        case ast.BoolOp():
            yield "and/or", 0
        case ast.If() | ast.IfExp() | ast.While():
            yield "negate", 0
        case ast.comprehension(ifs=ifs) if ifs:
            yield "negate", 0
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield "one more", 0
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield "sum", 0
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", 0
        case ast.Call(args=[_, _, *_]):
            yield "swap", 0
        case _ if isinstance(node, _REMOVED) or (isinstance(node, ast.Expr) and not _is_docstring(node)):
            yield "remove", 0
        case _:
            pass


def _apply(node: ast.AST, operator: str, number: int, tree: ast.Module) -> None:
    match operator, node:
        case "flip", ast.Compare():
            node.ops[number] = _FLIPS[type(node.ops[number])]()
        case "and/or", ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case "negate", ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case "negate", ast.comprehension():
            node.ifs[0] = ast.UnaryOp(ast.Not(), node.ifs[0])
        case "one more", ast.Constant(value=int() as value):
            node.value = value + 1
        case "sum", ast.BinOp():
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        case "sign", ast.UnaryOp():
            node.op = ast.UAdd()
        case "swap", ast.Call():
            node.args[0], node.args[1] = node.args[1], node.args[0]
        case _, ast.stmt():
            _remove(node, tree)
        case _:
            raise AssertionError(operator)


def _remove(statement: ast.stmt, tree: ast.Module) -> None:
    for parent in ast.walk(tree):
        for name in ("body", "orelse"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                block[block.index(statement)] = ast.Pass()
                return
    raise AssertionError(ast.dump(statement))


# -- Lua -------------------------------------------------------------------------------------

_LUA = (
    (
        "flip",
        re.compile(r"==|~=|<=|>=|<|>"),
        {"==": "~=", "~=": "==", "<=": "<", ">=": ">", "<": "<=", ">": ">="},
    ),
    ("and/or", re.compile(r"\b(?:and|or)\b"), {"and": "or", "or": "and"}),
    ("not", re.compile(r"\bnot "), {"not ": ""}),
    ("sum", re.compile(r"(?<=[\w)] )[+-](?= )"), {"+": "-", "-": "+"}),
)
_NUMBER = re.compile(r"(?<![\w.'-])\d+(?![\w.'])")
_NEGATED = re.compile(r"^(\s*(?:else)?if )(.*)( then)$")
_STATEMENT = re.compile(
    r"redis\.call\(|write\(|note_lost\(|return\b|(?!local |for |if |function )[\w\[\].#+ ,]+ = "
)
_CALL = re.compile(r"\b(lower|later|holds|note_lost|fenced|values|write)\(")
_STRING = re.compile(r"'[^']*'")


def of_lua(text: str) -> list[Mutant]:
    """Every mutant of the library's functions."""
    return numbered(_lua(text.split("\n")))


def _lua(lines: list[str]) -> Iterator[tuple[str, Callable[[], str]]]:
    where = ""
    for at, line in enumerate(lines):
        begun = re.match(r"(?:local )?function (\w+)", line)
        where = begun[1] if begun else where
        code = _blinded(line)
        if not where or begun or not code.strip() or code.startswith("redis.register"):
            continue
        for operator, made in _changes(line, code):
            name = f"{where}: {operator}: {line.strip()}"
            yield name, functools.partial("\n".join, (*lines[:at], *made, *lines[at + 1 :]))


def _blinded(line: str) -> str:
    """The line with its comment and the inside of its strings blanked, as long as before."""
    code = _STRING.sub(lambda found: "'" + "s" * (len(found[0]) - 2) + "'", line)
    return code.partition("--")[0].ljust(len(line)) if "--" in code else code


def _changes(line: str, code: str) -> Iterator[tuple[str, list[str]]]:
    for operator, pattern, instead in _LUA:
        for found in pattern.finditer(code):
            yield operator, [line[: found.start()] + instead[found[0]] + line[found.end() :]]
    for found in _NUMBER.finditer(code):
        yield "one more", [line[: found.start()] + str(int(found[0]) + 1) + line[found.end() :]]
    if negated := _NEGATED.match(line):
        yield "negate", [f"{negated[1]}not ({negated[2]}){negated[3]}"]
    if _STATEMENT.match(code.strip()) and _closed(code):
        yield "remove", [""]
    for found in _CALL.finditer(code):
        if swapped := _swapped(line, code, found.end()):
            yield "swap", [swapped]


def _closed(code: str) -> bool:
    return all(code.count(one) == code.count(other) for one, other in ("()", "{}", "[]"))


def _swapped(line: str, code: str, begin: int) -> str:
    """The line with the first two arguments of the call swapped; empty if there are not two on the line."""
    depth, marks = 0, [begin]
    for at in range(begin, len(code)):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(code[at], 0)
        if depth < 0 or (code[at] == "," and depth == 0):
            marks.append(at)
        if depth < 0 or len(marks) == 3:
            break
    if len(marks) < 3:
        return ""
    first, second = (
        line[one + (at > 0) : other].strip() for at, (one, other) in enumerate(itertools.pairwise(marks))
    )
    return f"{line[:begin]}{second}, {first}{line[marks[2] :]}"
