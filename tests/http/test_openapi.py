# SPDX-License-Identifier: Apache-2.0
"""The document against the answers, and the answers against the document."""

import re
from typing import Any

import jsonschema
import pytest
from daemon import Vettad

EXAMPLES = {
    "/api/v1/jobs": ["", "?limit=1", "?user=nobody"],
    "/api/v1/jobs/{id}": ["4711", "4712"],
    "/api/v1/jobs/{id}/ranks": ["4711", "4712"],
    "/api/v1/jobs/{id}/steps": ["4711"],
    "/api/v1/jobs/{id}/samples": ["4711", "4712"],
    "/api/v1/jobs/{id}/diagnosis": ["4711"],
    "/api/v1/jobs/{id}/why": ["4711", "4712"],
    "/api/v1/nodes/{name}": ["n001", "n003", "n004"],
    "/api/v1/events": ["", "?job=4711", "?newest_first=true"],
}


@pytest.fixture(scope="module")
def document(vettad: Vettad) -> Any:
    return vettad.get("/api/v1/openapi.json")


def check(document: Any, name: str, value: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
    jsonschema.validate(value, schema, jsonschema.Draft202012Validator)


def test_it_is_openapi_with_sound_schemas(document: Any) -> None:
    assert document["openapi"] == "3.1.0"
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        for reference in re.findall(r"#/components/schemas/(\w+)", str(schema)):
            assert reference in document["components"]["schemas"], (name, reference)


def test_every_route_says_what_it_is(document: Any) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (method, path)
            named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path)), path
            assert all(p["description"] for p in operation["parameters"]), path


def test_every_answer_is_as_written(vettad: Vettad, document: Any) -> None:
    checked = set()
    for path, operations in document["paths"].items():
        if "get" not in operations:
            continue
        content = operations["get"]["responses"].get("200", {}).get("content", {})
        reference = content.get("application/json", {}).get("schema", {}).get("$ref")
        if not reference:
            continue
        for example in EXAMPLES.get(path, [""]):
            target = re.sub(r"{\w+}", example, path) if "{" in path else path + example
            check(document, reference.rpartition("/")[2], vettad.get(target))
        checked.add(path)
    assert len(checked) == 16, checked


def test_posts_and_errors_are_as_written(vettad: Vettad, document: Any) -> None:
    answer = vettad.ask("/api/v1/jobs/4711/burst", "POST")
    check(document, "Burst", answer.json)
    for target in ("/api/v1/jobs/99", "/api/v1/jobs?limit=x", "/nowhere", "/api/v1/nodes/none"):
        check(document, "ErrorAnswer", vettad.ask(target).json)
