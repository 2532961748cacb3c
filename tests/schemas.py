"""JSON schemas of what people write, for editors: ``python -m tests.schemas`` writes them.

They are those of the records that read these files. What spans several fields, such as that a job
has a model or traffic, is for `metronome validate` to say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from numpydoc.docscrape import NumpyDocString  # type: ignore[import-untyped]
from pydantic import TypeAdapter

from metronome_opt.kubernetes.state.records import Gang, JobFile
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.workload import Workload, data_folder

DOCUMENTS: dict[str, TypeAdapter[Any]] = {
    "scenario": TypeAdapter(Scenario),
    "cluster": TypeAdapter(ClusterSpec),
    "job": TypeAdapter(JobFile | Gang),
    "workload": TypeAdapter(Workload),
}
FOLDER = data_folder() / "schemas"


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of a kind of document, its fields explained as in the docstrings."""
    schema = DOCUMENTS[name].json_schema()
    for record in (schema, *schema["$defs"].values()):
        if "properties" in record:
            _explain(record)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _explain(record: dict[str, Any]) -> None:
    fields = record["properties"]
    if "format" in fields:  # has to be there, though the record knows it
        record["required"] = ["format", *record["required"]]
    documented = NumpyDocString(record.pop("description", ""))
    for names, _, lines in documented["Parameters"]:
        for each in names.split(", "):
            if each in fields:
                fields[each]["description"] = " ".join(lines)


def text_of(name: str) -> str:
    return json.dumps(schema_of(name), indent=1, ensure_ascii=False) + "\n"


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


if __name__ == "__main__":
    for each in DOCUMENTS:
        path_of(each).write_text(text_of(each), encoding="utf-8")
