"""Find the modules that read each key of the stack file: the types of expressions, followed through the code."""

from __future__ import annotations

import ast
import subprocess
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from spec.settings.fleets import Fleet
from spec.settings.section import Section

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("infra", "spec", "modelctl", "stackctl", "twin")
_SETTINGS = "spec/settings/"
RELATIONS = "spec/settings/relations/"
_DERIVED = "spec/settings/pipelines.py"
_SEQUENCES = {"tuple", "list", "set", "frozenset", "Sequence", "Iterable", "Iterator", "Collection"}
_MAPPINGS = {"dict", "Mapping", "defaultdict"}
# Functions of Python that return, or iterate over, elements of their first argument.
_SAME = {"sorted", "list", "tuple", "set", "reversed", "iter", "filter"}
_ELEMENT = {"next", "max", "min"}

Key = tuple[type[Section], str]


@dataclass(frozen=True)
class _Many:
    element: _Type


@dataclass(frozen=True)
class _Map:
    value: _Type


@dataclass(frozen=True)
class _Tuple:
    elements: tuple[_Type, ...]


@dataclass(frozen=True)
class _Either:
    options: tuple[_Type, _Type]


@dataclass(eq=False)
class _Class:
    """A class of this repository that is no section: its attributes, properties and methods by their types."""

    attributes: dict[str, _Type] = field(default_factory=dict)


_Type = type[Section] | _Many | _Map | _Tuple | _Either | _Class | None


def uses() -> dict[Key, list[str]]:
    """Return of each key the modules that read it, infra/ first; of spec/settings/ rules between sections and pipelines."""
    patterns = [f"{package}/*.py" for package in PACKAGES]
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return uses_in({path: (ROOT / path).read_text(encoding="utf-8") for path in listed.stdout.split()})


def uses_in(texts: dict[str, str]) -> dict[Key, list[str]]:
    """Return of each key the modules that read it, of these modules by their paths."""
    modules = {path: ast.parse(text) for path, text in texts.items()}
    homes = _homes(modules)
    code = _Code({path: _with_own_names(path, module, homes) for path, module in modules.items()})
    found: dict[Key, set[str]] = defaultdict(set)
    for path in code.modules:
        if path.startswith((RELATIONS, _DERIVED)) or not path.startswith(_SETTINGS):
            for key in code.read_by(path):
                found[key].add(path)
    order = {package: place for place, package in enumerate(PACKAGES)}
    return {key: sorted(paths, key=lambda path: (order[path.partition("/")[0]], path)) for key, paths in found.items()}


def _homes(modules: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return of each class that is no section the modules that define it."""
    of_sections = {section.__name__ for section in sections()}
    homes: dict[str, set[str]] = defaultdict(set)
    for path, module in modules.items():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and node.name not in of_sections:
                homes[node.name].add(path)
    return homes


def _with_own_names(path: str, module: ast.Module, homes: dict[str, set[str]]) -> ast.Module:
    """Return the module, in which an imported class has its own name, and one of several by a name its module's too."""
    nodes = list(ast.walk(module))
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            home = f"{(node.module or '').replace('.', '/')}.py"
            for name in node.names:
                shared = len(homes.get(name.name, ())) > 1 and home in homes[name.name]
                if shared or name.asname:
                    names[name.asname or name.name] = f"{home}:{name.name}" if shared else name.name
    for node in module.body:
        if isinstance(node, ast.ClassDef) and (node.name.startswith("_") or len(homes.get(node.name, ())) > 1):
            names[node.name] = node.name = f"{path}:{node.name}"
    for name_node in nodes:
        if isinstance(name_node, ast.Name) and name_node.id in names:
            name_node.id = names[name_node.id]
    return module


def sections() -> list[type[Section]]:
    """Return every section, a section after the one that it extends."""

    def below(base: type[Section]) -> Iterator[type[Section]]:
        for section in base.__subclasses__():
            yield section
            yield from below(section)

    return list(below(Section))


class _Code:
    def __init__(self, modules: dict[str, ast.Module]) -> None:
        self.modules = modules
        self._sections = {section.__name__: section for section in sections()}
        self._classes: dict[str, _Class] = {}
        self._defined: dict[ast.ClassDef, _Class] = {}
        self._returns: dict[str, _Type] = {}
        self._of_properties: dict[tuple[str, str], set[Key]] = {}
        self._declare()
        self._read_properties()

    def read_by(self, path: str) -> set[Key]:
        reader = _Reader(self)
        reader.block(self.modules[path].body, {})
        return reader.keys

    def attribute(self, owner: _Type, name: str) -> tuple[_Type, set[Key]]:
        """Return the type of an attribute and the keys that reading it reads."""
        if isinstance(owner, _Either):
            (first, keys), (second, others) = (self.attribute(option, name) for option in owner.options)
            return first or second, keys | others
        if isinstance(owner, _Class):
            return owner.attributes.get(name), set()
        if not isinstance(owner, type):
            return None, set()
        if name in owner.model_fields:
            home = next(base for base in reversed(owner.__mro__) if name in getattr(base, "model_fields", ()))
            return self._of_annotation(owner.model_fields[name].annotation), {(home, name)}
        if isinstance(found := getattr(owner, name, None), property):
            home = next(base for base in owner.__mro__ if name in vars(base))
            hint = typing.get_type_hints(found.fget).get("return")
            return self._of_annotation(hint), self._of_properties.get((home.__name__, name), set())
        return None, set()

    def named(self, name: str) -> _Type:
        return self._sections.get(name) or self._classes.get(name)

    def defined(self, node: ast.ClassDef) -> _Type:
        return self._defined.get(node) or self.named(node.name)

    def returned(self, name: str) -> _Type:
        return self._returns.get(name)

    def of_node(self, node: ast.expr | None) -> _Type:
        """Return the type that an annotation means."""
        match node:
            case ast.Constant(value=str(text)):
                return self.of_node(ast.parse(text, mode="eval").body)
            case ast.Name(id=name):
                return self.named(name)
            case ast.Attribute(attr=name):
                return self.named(name)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                either = (self.of_node(left), self.of_node(right))
                return _Either(either) if all(either) else either[0] or either[1]
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name.endswith("Fleet"):
                return _Class({"stack": self.of_node(inner)})
            case ast.Subscript(value=ast.Name(id=name), slice=inner):
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                if name in _MAPPINGS:
                    return _Map(self.of_node(parts[-1]))
                if name == "tuple" and not any(isinstance(part, ast.Constant) for part in parts):
                    return _Tuple(tuple(map(self.of_node, parts)))
                return _Many(self.of_node(parts[0])) if name in _SEQUENCES else None
        return None

    def _of_annotation(self, hint: Any) -> _Type:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._of_annotation(arguments[0])
        if origin in (Union, UnionType):
            return next((found for part in arguments if (found := self._of_annotation(part))), None)
        if origin is tuple:
            return _Many(self._of_annotation(arguments[0]))
        if origin is Fleet:
            return _Class({"stack": self.named("Settings")})
        if origin is dict:
            return _Map(self._of_annotation(arguments[1]))
        return hint if isinstance(hint, type) and issubclass(hint, Section) else None

    def _declare(self) -> None:
        nodes = [(path, node) for path, module in self.modules.items() for node in ast.walk(module)]
        # A component may have the name of the section that configures it.
        classes = [
            node
            for path, node in nodes
            if isinstance(node, ast.ClassDef) and not (path.startswith(_SETTINGS) and node.name in self._sections)
        ]
        self._defined = {defined: _Class() for defined in classes}
        self._classes = {defined.name: found for defined, found in self._defined.items()}
        for defined in classes:
            attributes = self._defined[defined].attributes
            for statement in defined.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    attributes[statement.target.id] = self.of_node(statement.annotation)
                elif isinstance(statement, ast.FunctionDef):
                    attributes[statement.name] = self.of_node(statement.returns)
                    if statement.name == "__init__":
                        self._attributes_of_self(statement, attributes)
        for _, node in nodes:
            if isinstance(node, ast.FunctionDef) and (returned := self.of_node(node.returns)):
                self._returns[node.name] = returned

    def _attributes_of_self(self, function: ast.FunctionDef, attributes: dict[str, _Type]) -> None:
        given = {argument.arg: self.of_node(argument.annotation) for argument in _arguments(function.args)}
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Name(id=value)):
                    attributes[name] = given.get(value)
                case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
                    attributes[name] = self.of_node(annotation)

    def _read_properties(self) -> None:
        """Read which keys each property of a section reads; twice, as one may read another."""
        bodies = [
            (self._sections[node.name], statement)
            for path, module in self.modules.items()
            if path.startswith(_SETTINGS)
            for node in module.body
            if isinstance(node, ast.ClassDef) and node.name in self._sections
            for statement in node.body
            if isinstance(statement, ast.FunctionDef)
        ]
        for _ in range(2):
            for section, function in bodies:
                reader = _Reader(self)
                reader.block(function.body, {"self": section})
                # What a fleet is made of is read where its view of the stack is.
                keys = {key for key in reader.keys if key[1] == "fleets"} if function.name == "each_fleet" else reader.keys
                self._of_properties[section.__name__, function.name] = keys


class _Reader:
    """Collects the keys that a piece of code reads. An environment has the types of the names that it knows."""

    def __init__(self, code: _Code) -> None:
        self._code = code
        self.keys: set[Key] = set()

    def block(self, body: Iterable[ast.AST], known: dict[str, _Type]) -> None:
        for node in body:
            self._node(node, known)

    def _node(self, node: ast.AST, known: dict[str, _Type]) -> None:
        match node:
            case ast.ClassDef():
                self.block(node.body, {**known, "self": self._code.defined(node)})
            case ast.FunctionDef():
                self.block(node.decorator_list, known)
                inner = {argument.arg: self._code.of_node(argument.annotation) for argument in _arguments(node.args)}
                inner = {name: found for name, found in inner.items() if found or name != "self"}
                self.block(node.body, {**known, **inner})
            case ast.Assign(targets=targets, value=value):
                found = self._type(value, known)
                for target in targets:
                    self._bind(target, found, known)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self._type(value, known)
                self._bind(target, self._code.of_node(annotation), known)
            case ast.For(target=target, iter=values, body=body, orelse=orelse):
                self._bind(target, self._element(self._type(values, known)), known)
                self.block([*body, *orelse], known)
            case ast.expr():
                self._type(node, known)
            case _:
                self.block(ast.iter_child_nodes(node), known)

    def _type(self, node: ast.AST | None, known: dict[str, _Type]) -> _Type:
        match node:
            case ast.Name(id=name):
                return known.get(name)
            case ast.Attribute(value=value, attr=name):
                found, keys = self._code.attribute(self._type(value, known), name)
                self.keys |= keys
                return found
            case ast.Subscript(value=value, slice=inner):
                self._type(inner, known)
                found = self._type(value, known)
                return found.value if isinstance(found, _Map) else self._element(found)
            case ast.NamedExpr(target=target, value=value):
                found = self._type(value, known)
                self._bind(target, found, known)
                return found
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._type(test, known)
                return self._first([body, orelse], known)
            case ast.BoolOp(values=values):
                return self._first(values, known)
            case ast.Tuple(elts=elements):
                return _Tuple(tuple(self._type(element, known) for element in elements))
            case ast.List(elts=elements):
                return _Many(self._first(elements, known))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, known)
            case ast.Call():
                return self._call(node, known)
            case ast.Starred(value=value):
                return self._element(self._type(value, known))
        if node is not None:
            self.block(ast.iter_child_nodes(node), known)
        return None

    def _first(self, nodes: Iterable[ast.expr], known: dict[str, _Type]) -> _Type:
        return next((found for found in [self._type(node, known) for node in nodes] if found), None)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, known: dict[str, _Type]
    ) -> _Type:
        inner = dict(known)
        for generator in node.generators:
            self._bind(generator.target, self._element(self._type(generator.iter, inner)), inner)
            self.block(generator.ifs, inner)
        if isinstance(node, ast.DictComp):
            self._type(node.key, inner)
            return _Map(self._type(node.value, inner))
        return _Many(self._type(node.elt, inner))

    def _call(self, node: ast.Call, known: dict[str, _Type]) -> _Type:
        arguments = [self._type(argument, known) for argument in node.args]
        self.block([keyword.value for keyword in node.keywords], known)
        first = arguments[0] if arguments else None
        match node.func:
            case ast.Name(id="enumerate"):
                return _Many(_Tuple((None, self._element(first))))
            case ast.Name(id="zip"):
                return _Many(_Tuple(tuple(map(self._element, arguments))))
            case ast.Name(id=name) if name in _SAME:
                return first
            case ast.Name(id=name) if name in _ELEMENT:
                return self._element(first)
            case ast.Name(id=name):
                return self._code.named(name) or self._code.returned(name)
            case ast.Attribute(value=value, attr=name):
                owner = self._type(value, known)
                if isinstance(owner, _Map):
                    return {"items": _Many(_Tuple((None, owner.value))), "values": _Many(owner.value)}.get(name, owner.value)
                if owner is None:
                    return self._code.returned(name)
                found, keys = self._code.attribute(owner, name)
                self.keys |= keys
                return found
        self._type(node.func, known)
        return None

    def _bind(self, target: ast.expr, found: _Type, known: dict[str, _Type]) -> None:
        match target:
            case ast.Name(id=name):
                known[name] = found
            case ast.Tuple(elts=targets):
                parts = found.elements if isinstance(found, _Tuple) else ()
                for place, part in enumerate(targets):
                    self._bind(part, parts[place] if place < len(parts) else self._element(found), known)
            case _:
                self._type(target, known)

    @staticmethod
    def _element(found: _Type) -> _Type:
        return found.element if isinstance(found, _Many) else None


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
