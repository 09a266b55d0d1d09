"""Where schemas are: the document as nodes with pointers, and references resolved between them; knows no instance and no bytes.

In goes the parsed schema, out come `Node`s: a subschema with its JSON pointer, its resource (base URI, anchors, dialect) and
the dynamic anchors that are in force (JSON Schema 2020-12 Core, sections 8 and 9). Nothing is ever fetched: a reference is
found in the request's own document or in the published metaschemas, or it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from guided.errors import InvalidConstraint, UnsupportedKeyword

_DIALECTS = (("2020-12", 2020), ("2019-09", 2019), ("draft-07", 7), ("draft-06", 6), ("draft-04", 4), ("draft-03", 3))
LATEST = 2020
_IDENTIFYING = frozenset(
    ["$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$dynamicRef", "$recursiveRef"]
)

# Keywords that say nothing about instances.
ANNOTATIONS = frozenset(
    [
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$vocabulary",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    ]
)

# How the value of a keyword holds subschemas.
ONE, MANY, NAMED = "one", "many", "named"
SUBSCHEMAS = {
    **dict.fromkeys(
        [
            "additionalProperties",
            "unevaluatedProperties",
            "propertyNames",
            "additionalItems",
            "unevaluatedItems",
            "contains",
            "not",
            "if",
            "then",
            "else",
        ],
        ONE,
    ),
    **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], MANY),
    **dict.fromkeys(
        ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"], NAMED
    ),
    "items": ONE,  # or a list
}

INTRODUCED = {  # keyword -> the draft that brought it; to older ones it is an annotation
    **dict.fromkeys(("const", "contains", "propertyNames"), 6),
    **dict.fromkeys(("if", "then", "else"), 7),
    **dict.fromkeys(("dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"), 2019),
    **dict.fromkeys(("minContains", "maxContains", "$recursiveRef"), 2019),
    **dict.fromkeys(("prefixItems", "$dynamicRef"), 2020),
}

Scope = tuple[tuple[str, "Node"], ...]  # dynamic anchor -> the outermost node that carries it


class Resource:
    """A schema with an identity of its own: the document, or a subschema with `$id`."""

    __slots__ = ("anchors", "dialect", "dynamic_anchors", "pointer", "root", "uri")

    def __init__(self, uri: str, root: Any, pointer: str, dialect: int) -> None:
        self.uri = uri
        self.root = root
        self.pointer = pointer
        self.dialect = dialect
        self.anchors: dict[str, tuple[Any, str]] = {}  # anchor -> (subschema, pointer)
        self.dynamic_anchors: dict[str, tuple[Any, str]] = {}


class Node:
    """A subschema in its place; equal only to itself, made once per place and dynamic scope."""

    __slots__ = ("_children", "_document", "number", "pointer", "resource", "schema", "scope")

    def __init__(
        self, document: Document, schema: Any, pointer: str, resource: Resource, scope: Scope, number: int
    ) -> None:
        self._document = document
        self.schema = schema
        self.pointer = pointer
        self.resource = resource
        self.scope = scope
        self.number = number
        self._children: dict[tuple, Node] = {}

    def __repr__(self) -> str:
        return f"Node({self.pointer or '/'})"

    def child(self, *path: str | int) -> Node:
        """The subschema at `path` below this one, such as ("properties", "name")."""
        known = self._children.get(path)
        if known is None:
            schema = self.schema
            for token in path:
                schema = schema[token]
            pointer = f"{self.pointer}/{path[0]}" if len(path) == 1 else f"{self.pointer}/{path[0]}/{escape(path[1])}"
            known = self._children[path] = self._document.node(schema, pointer, self.resource, self.scope)
        return known

    def reference(self, keyword: str) -> Node:
        """The node that `$ref`, `$dynamicRef` or `$recursiveRef` of this one leads to."""
        known = self._children.get((keyword,))
        if known is None:
            known = self._children[(keyword,)] = self._document.resolve(self, keyword)
        return known

    def meant(self) -> Node:
        """This node, or where its `$ref` leads if nothing else is said here; a circle of references leads to itself."""
        if not isinstance(self.schema, dict) or "$ref" not in self.schema:
            return self
        node, seen = self, {self}
        while isinstance(node.schema, dict) and "$ref" in node.schema and node.schema.keys() - ANNOTATIONS == {"$ref"}:
            node = node.reference("$ref")
            if node in seen:
                return self
            seen.add(node)
        return node

    def subschemas(self) -> Iterator[tuple[str | int, ...]]:
        """The paths of the direct subschemas, definitions included."""
        return subschema_paths(self.schema)


def subschema_paths(schema: Any) -> Iterator[tuple[str | int, ...]]:
    """Paths of the direct subschemas of a schema; values that are no schemas are left out."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        kind = SUBSCHEMAS.get(keyword)
        if kind is None:
            continue
        if kind is NAMED:
            if isinstance(value, dict):
                for name, member in value.items():
                    if isinstance(member, (dict, bool)):
                        yield keyword, name
        elif isinstance(value, list):
            if kind is MANY or keyword == "items":
                for position, member in enumerate(value):
                    if isinstance(member, (dict, bool)):
                        yield keyword, position
        elif isinstance(value, (dict, bool)) and kind is ONE:
            yield (keyword,)


def escape(token: str | int) -> str:
    """A reference token of a JSON pointer (RFC 6901)."""
    text = str(token)
    return text.replace("~", "~0").replace("/", "~1") if "~" in text or "/" in text else text


def dialect_of(schema: Any, default: int) -> int:
    """The draft that `$schema` names; a dialect of one's own counts as the default."""
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(declared, str):
        for name, dialect in _DIALECTS:
            if name in declared:
                return dialect
    return default


class Document:
    """The whole schema and everything that it embeds.

    Attributes:
        by_the_letter: keywords that the declared draft does not know, and siblings of `$ref` in Draft 7 and older, count for
            nothing, as the standard says; otherwise they are enforced, which is what who wrote them meant.
    """

    def __init__(self, schema: Any, by_the_letter: bool = False) -> None:
        self.by_the_letter = by_the_letter
        self._resources: dict[str, Resource] = {}
        self._resource_of: dict[int, Resource] = {}  # id of the root object of a resource -> resource
        self._nodes: dict[tuple[int, str, Scope], Node] = {}
        self._scopes: dict[tuple[int, Scope], Scope] = {}
        self._uses_dynamic_scope = False
        self._kept: list[Any] = [schema]  # ids are taken of these objects
        root = self._load("", schema)
        self.root = self.node(schema, "", root, ())

    # --- nodes ------------------------------------------------------------------------------------------------------

    def node(self, schema: Any, pointer: str, resource: Resource, scope: Scope) -> Node:
        """The node of a place; entering a resource brings its dynamic anchors into force where no outer one has them."""
        resource = self._resource_of.get(id(schema), resource) if isinstance(schema, dict) else resource
        if self._uses_dynamic_scope:
            scope = self._entered(resource, scope)
        key = (id(resource), pointer, scope)
        known = self._nodes.get(key)
        if known is None:
            if self.by_the_letter and resource.dialect < LATEST and isinstance(schema, dict):
                schema = _by_the_letter(schema, resource.dialect)
            known = self._nodes[key] = Node(self, schema, pointer, resource, scope, len(self._nodes))
        return known

    def _entered(self, resource: Resource, scope: Scope) -> Scope:
        known = self._scopes.get((id(resource), scope))
        if known is None:
            anchors = {anchor for anchor, _ in scope}
            added = [
                (anchor, Node(self, schema, pointer, resource, (), -1))
                for anchor, (schema, pointer) in resource.dynamic_anchors.items()
                if anchor not in anchors
            ]
            known = self._scopes[(id(resource), scope)] = (*scope, *added)
        return known

    # --- resources --------------------------------------------------------------------------------------------------

    def _load(self, uri: str, schema: Any) -> Resource:
        """Registers a document: its resources and their anchors."""
        dialect = dialect_of(schema, LATEST)
        own = identifier(schema, dialect)
        if self.by_the_letter:
            _check_declaration(schema)
        if own is not None and not own.startswith("#"):
            uri = urljoin(uri, own.rstrip("#"))
        resource = Resource(urldefrag(uri)[0], schema, "", dialect)
        self._register(resource)
        worklist = [(schema, "", resource)]
        while worklist:
            place, pointer, resource = worklist.pop()
            resource = self._identify(place, pointer, resource)
            for path in subschema_paths(place):
                member = place
                for token in path:
                    member = member[token]
                if isinstance(member, dict):
                    place_of = f"{pointer}/{path[0]}" if len(path) == 1 else f"{pointer}/{path[0]}/{escape(path[1])}"
                    worklist.append((member, place_of, resource))
        return self._resource_of[id(schema)] if isinstance(schema, dict) else resource

    def _register(self, resource: Resource) -> None:
        self._resources.setdefault(resource.uri, resource)
        if isinstance(resource.root, dict):
            self._resource_of[id(resource.root)] = resource

    def _identify(self, schema: dict, pointer: str, resource: Resource) -> Resource:
        """Takes note of identifiers and anchors of one schema object; the resource that it belongs to."""
        if not isinstance(schema, dict) or _IDENTIFYING.isdisjoint(schema):
            return resource
        dialect = dialect_of(schema, resource.dialect)
        own = identifier(schema, dialect)
        if own is not None and pointer and not own.startswith("#"):
            resource = Resource(urldefrag(urljoin(resource.uri, own))[0], schema, pointer, dialect)
            self._register(resource)
        if own is not None and "#" in own and own.split("#")[1]:
            resource.anchors.setdefault(own.split("#")[1], (schema, pointer))
        for keyword, table in (("$anchor", resource.anchors), ("$dynamicAnchor", resource.dynamic_anchors)):
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                resource.anchors.setdefault(anchor, (schema, pointer))
                table.setdefault(anchor, (schema, pointer))
        if schema.get("$recursiveAnchor") is True:
            resource.dynamic_anchors.setdefault("", (schema, pointer))
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            self._uses_dynamic_scope = True
        return resource

    # --- references -------------------------------------------------------------------------------------------------

    def resolve(self, node: Node, keyword: str) -> Node:
        """The node that a reference keyword leads to.

        Raises:
            InvalidConstraint: no such place in a schema that is at hand.
            UnsupportedKeyword: the reference leads to another document.
        """
        reference = node.schema[keyword]
        place = f"{node.pointer}/{keyword}"
        uri, fragment = urldefrag(urljoin(node.resource.uri, reference))
        resource = node.resource if reference.startswith("#") else self._resource(uri, reference, keyword, place)
        target = self._locate(resource, unquote(fragment), node.scope, reference, place)
        anchored = keyword == "$dynamicRef" and fragment in resource.dynamic_anchors
        recursive = (
            keyword == "$recursiveRef"
            and isinstance(target.schema, dict)
            and target.schema.get("$recursiveAnchor") is True
        )
        if anchored or recursive:
            for anchor, outermost in node.scope:
                if anchor == ("" if recursive else fragment):
                    return self.node(outermost.schema, outermost.pointer, outermost.resource, node.scope)
        return target

    def _resource(self, uri: str, reference: str, keyword: str, place: str) -> Resource:
        known = self._resources.get(uri)
        if known is None:
            schema = _metaschema(uri)
            if schema is None:
                raise UnsupportedKeyword(
                    f"the reference {reference!r} leads to another document, and nothing is ever fetched",
                    keyword=keyword,
                    pointer=place,
                    hint="Put the schema under $defs, with its $id.",
                )
            self._kept.append(schema)
            known = self._load(uri, schema)
            self._resources.setdefault(uri, known)
        return known

    def _locate(self, resource: Resource, fragment: str, scope: Scope, reference: str, place: str) -> Node:
        """The node that a fragment names within a resource: a JSON pointer, an anchor, or the whole."""
        if fragment and not fragment.startswith("/"):
            found = resource.anchors.get(fragment)
            if found is None:
                raise InvalidConstraint(
                    f"the reference {reference!r} names an anchor that does not exist", pointer=place
                )
            return self.node(found[0], found[1], resource, scope)
        schema, pointer = resource.root, resource.pointer
        for token in fragment.split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, list) and re.fullmatch(r"0|[1-9][0-9]*", token) and int(token) < len(schema):
                schema = schema[int(token)]
            elif isinstance(schema, dict) and token in schema:
                schema = schema[token]
            else:
                raise InvalidConstraint(f"the reference {reference!r} leads nowhere", pointer=place)
            pointer += "/" + escape(token)
            if isinstance(schema, dict):
                resource = self._resource_of.get(id(schema), resource)
        if not isinstance(schema, (dict, bool)):
            raise InvalidConstraint(f"the reference {reference!r} leads to something that is no schema", pointer=place)
        return self.node(schema, pointer, resource, scope)


def _check_declaration(schema: Any) -> None:
    """By the letter, a metaschema that is not at hand may give keywords any meaning."""
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(declared, str) and not re.match(r"https?://json-schema\.org/(draft[-/]|schema)", declared):
        raise UnsupportedKeyword(f"the metaschema {declared!r} is not known", keyword="$schema", pointer="/$schema")


def identifier(schema: Any, dialect: int) -> str | None:
    """`$id`, or `id` as Draft 4 spells it; beside a `$ref` of Draft 7 and older it counts for nothing."""
    if not isinstance(schema, dict) or (dialect <= 7 and "$ref" in schema):
        return None
    own = schema.get("id" if dialect <= 4 else "$id")
    return own if isinstance(own, str) else None


def _by_the_letter(schema: dict, dialect: int) -> dict:
    """What a schema object means in its draft."""
    if dialect <= 7 and "$ref" in schema:
        return {"$ref": schema["$ref"]}
    if any(INTRODUCED.get(keyword, 0) > dialect for keyword in schema):
        return {keyword: value for keyword, value in schema.items() if INTRODUCED.get(keyword, 0) <= dialect}
    return schema


def _metaschema(uri: str) -> Any:
    """A published metaschema by its URI, or None."""
    if "json-schema.org/" not in uri:
        return None
    from jsonschema_specifications import REGISTRY  # late: few schemas need it, and it reads files

    resource = REGISTRY.get(uri) or REGISTRY.get(uri + "#")
    return None if resource is None else resource.contents
