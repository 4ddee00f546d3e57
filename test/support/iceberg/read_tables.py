"""Reads Iceberg tables by pyiceberg, as a user of them would. One JSON request a line on stdin, one JSON answer a line on stdout.

Requests: {"table": name} for the rows in the form of published files; {"inspect": name} for what `inspect.files` shows;
{"filter": text, "table": name} for the rows that pass a filter; {"parquet": file in base64, "text": text} for its rows that have a text.
"""

import base64
import io
import json
import sys

import pyarrow.parquet
from published_form import text
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError, NoSuchNamespaceError

properties = json.loads(sys.argv[1])
catalog = load_catalog("lake", **properties)


def answer(request):
    try:
        if "parquet" in request:
            file = io.BytesIO(base64.b64decode(request["parquet"]))
            rows = text(pyarrow.parquet.read_table(file).to_pylist())
            return [row for row in rows if request["text"] in json.dumps(row, ensure_ascii=False)]
        if "inspect" in request:
            return text(catalog.load_table(request["inspect"]).inspect.files().to_pylist())
        table = catalog.load_table(request["table"])
        scan = table.scan(row_filter=request["filter"]) if "filter" in request else table.scan()
        rows = [{column: text(value) for column, value in row.items()} for row in scan.to_arrow().to_pylist()]
        return sorted(rows, key=lambda row: json.dumps(row, ensure_ascii=False))
    except (NoSuchTableError, NoSuchNamespaceError):
        return []


for line in sys.stdin:
    try:
        print(json.dumps({"answer": answer(json.loads(line))}), flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
