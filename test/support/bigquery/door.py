"""What the emulator forgives and BigQuery doesn't, and gzip, which it can't read.

Every query is type-checked by Google's analyzer before it runs; jobs are found in their location only; a load refuses
unknown fields; requests, statements and variables have their limits; an UPDATE takes one source row for each target row.
POST /google runs an expression, or a statement with tables, by Google's reference implementation.
"""

import functools
import gzip
import os
import re
import shutil

from googlesql import Analyzer, SqlError, names_in, type_of_field, type_of_parameter
from google.protobuf import json_format
from local_bigquery.app import app
from local_bigquery.catalog import datasets, tables
from local_bigquery.engine import database
from local_bigquery.errors import STATUSES, BigQueryError, not_found
from local_bigquery.jobs import load, query, runner
from local_bigquery.jobs.storage import literal
from local_bigquery.sql import script
from local_bigquery.sql.translate import translate
from sqlglot import exp
from starlette.requests import Request
from starlette.responses import JSONResponse

# A single region, where every request has to name the location of a job.
LOCATION = "europe-west3"

MAX_QUERY_BYTES = 1_000_000
MAX_REQUEST_BYTES = 10_000_000
MAX_VARIABLE_BYTES = 1_000_000

STATUSES["requestTooLarge"] = (413, "OUT_OF_RANGE")
STATUSES["resourcesExceeded"] = (400, "RESOURCE_EXHAUSTED")

find_objects = lambda *path: database.objects(*path)
find_columns = lambda *path: tables.columns(*path)


@functools.cache
def analyzer():
    return Analyzer()


def declared_tables(text, default):
    """Columns of the tables that a script may name: of datasets and tables whose names are in it."""
    words = names_in(text)
    found = {}
    for project in sorted(database._attached):
        for dataset in dataset_names(project):
            if dataset.lower() not in words and (project, dataset) != default:
                continue
            for name, *_ in find_objects(project, dataset):
                if name.lower() in words:
                    found[(project, dataset, name)] = columns_of(project, dataset, name)
    return found


def dataset_names(project):
    rows = database.fetch("SELECT schema_name FROM duckdb_schemas() WHERE database_name = ?", [project])
    return [name for (name,) in rows if name != "main"]


def columns_of(*path):
    return [(field.name, type_of_field(field.dump())) for field in find_columns(*path)]


# Whether BigQuery takes a script, by all that the answer depends on.
verdicts = {}


def analyze(project_id, config):
    text = config.query or ""
    if len(text.encode()) > MAX_QUERY_BYTES:
        raise BigQueryError("invalidQuery", f"The query is too large. The maximum standard SQL query length is 1024.00K characters.")
    default = config.defaultDataset
    default = ((default and default.projectId) or project_id, default and default.datasetId)
    parameters = [(p.name, type_of_parameter(p.parameterType.dump())) for p in config.queryParameters or []]
    known = declared_tables(text, default)
    signature = (
        text,
        default,
        tuple((name, kind.SerializeToString()) for name, kind in parameters),
        tuple((path, tuple((n, t.SerializeToString()) for n, t in columns)) for path, columns in known.items()),
    )
    if signature not in verdicts:
        verdicts[signature] = verdict(text, known, parameters, default)
    message = verdicts[signature]
    if message is not None:
        raise refusal(message)


def verdict(*script):
    try:
        analyzer().check(*script)
    except SqlError as error:
        return re.sub(r"^Code: \d+, Message: ", "", str(error))
    return None


def refusal(message):
    missing = re.match(r"Table not found: `?([^;` ]*)", message)
    if missing:
        return BigQueryError("notFound", f"Not found: Table {missing[1]} was not found in location {LOCATION}")
    return BigQueryError("invalidQuery", message)


def execute(cur, project_id, job_id, config, dry_run=False, session=None):
    analyze(project_id, config)
    return query_of_emulator(cur, project_id, job_id, config, dry_run, session)


def one_source_row(tree, context, cur):
    """An UPDATE … FROM changes each row at most once: DuckDB picks one of several source rows."""
    source = tree.args.get("from_") or tree.args.get("from")
    if not isinstance(tree, exp.Update) or source is None:
        return
    target = tree.this.copy()
    join = exp.select(exp.func("count", exp.Star())).from_(target).join(source.this.copy(), join_type="cross")
    join = join.where(tree.args["where"].this.copy()).group_by(f"to_json({target.alias_or_name})")
    sql, bound = translate(join.having("count(*) > 1").limit(1), context)
    if cur.execute(sql, bound).fetchall():
        raise BigQueryError("invalidQuery", "UPDATE/MERGE must match at most one source row for each target row")


def run_statement(cur, tree, context, destination, config, dry_run, isolated):
    if not dry_run:
        one_source_row(tree, context, cur)
    return statement_of_emulator(cur, tree, context, destination, config, dry_run, isolated)


def store(self, value):
    table = store_of_emulator(self, value)
    check_variable(self.cursor, table)
    return table


def assign(self, table, value):
    assign_of_emulator(self, table, value)
    check_variable(self.cursor, table)


def check_variable(cur, table):
    [(size,)] = cur.execute(f"SELECT strlen(to_json(t)::VARCHAR) FROM {table} AS t").fetchall()
    if size > MAX_VARIABLE_BYTES:
        raise BigQueryError("resourcesExceeded", "The size of a variable exceeds the limit of 1 MB")


def run_load(cur, config, upload):
    if upload is not None:
        unpack(upload)
        if config.sourceFormat == "NEWLINE_DELIMITED_JSON" and not config.ignoreUnknownValues:
            refuse_unknown_fields(cur, config, upload)
    return load_of_emulator(cur, config, upload)


def unpack(upload):
    with open(upload, "rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return
    plain = f"{upload}.plain"
    try:
        with gzip.open(upload, "rb") as packed, open(plain, "wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (EOFError, OSError) as error:
        os.remove(plain)
        raise BigQueryError("invalid", f"Error while reading data, error message: {error}") from None
    os.replace(plain, upload)


def refuse_unknown_fields(cur, config, upload):
    declared = {field.name.casefold() for field in (config.schema_ and config.schema_.fields) or []}
    if not declared:
        declared = {field.name.casefold() for field in find_columns(*tables.reference(config.destinationTable))}
    rows = cur.sql(
        f"SELECT DISTINCT unnest(json_keys(json)) FROM read_ndjson_objects([{literal(upload)}], maximum_object_size = 104857600)"
    ).fetchall()
    unknown = sorted(name for (name,) in rows if name.casefold() not in declared)
    if unknown:
        raise BigQueryError("invalid", f"Error while reading data, error message: JSON parsing error: No such field: {unknown[0]}.")


JOB = re.compile(r"/(?:jobs|queries)/([^/]+)(?:/cancel)?$")


class Door:
    """What is decided from a request alone."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if scope["path"] == "/google":
            return await JSONResponse(self.by_google(await Request(scope, receive).json()))(scope, receive, send)
        error = self.refuse(scope)
        if error is not None:
            return await JSONResponse(error.response(), status_code=error.code)(scope, receive, send)
        return await self.app(scope, receive, send)

    @staticmethod
    def by_google(asked):
        try:
            if "tables" in asked:
                return json_format.MessageToDict(analyzer().modify(asked["sql"], asked["tables"]))
            return json_format.MessageToDict(analyzer().evaluate(asked["sql"]))
        except SqlError as error:
            return {"error": str(error)}

    @staticmethod
    def refuse(scope):
        headers = dict(scope["headers"])
        path, given = scope["path"], scope["query_string"].decode()
        is_upload = path.startswith("/upload")
        if not is_upload and int(headers.get(b"content-length", 0)) > MAX_REQUEST_BYTES:
            return BigQueryError("requestTooLarge", "Request payload size exceeds the limit: 10485760 bytes.")
        job = None if is_upload else JOB.search(path)
        if job and not re.search(rf"(^|&)location={LOCATION}(&|$)", given):
            return not_found("Job", f"{path.split('/projects/')[1].split('/')[0]}:{job[1]}")
        return None


def job_of(project_id, job_id, configuration):
    job = job_of_emulator(project_id, job_id, configuration)
    return job.replace(
        id=f"{project_id}:{LOCATION}.{job_id}",
        jobReference={"projectId": project_id, "jobId": job_id, "location": LOCATION},
    )


def defaults_of(project_id, dataset_id):
    return defaults_of_emulator(project_id, dataset_id).replace(location=LOCATION)


def install():
    """Puts the door in front of whatever the emulator's modules hold by now."""
    global query_of_emulator, statement_of_emulator, store_of_emulator, assign_of_emulator
    global load_of_emulator, job_of_emulator, defaults_of_emulator
    query_of_emulator, query.execute = query.execute, execute
    statement_of_emulator, query._run = query._run, run_statement
    store_of_emulator, script.Interpreter.store = script.Interpreter.store, store
    assign_of_emulator, script.Interpreter.assign = script.Interpreter.assign, assign
    load_of_emulator, runner.HANDLERS["load"] = load.run, run_load
    job_of_emulator, runner._job = runner._job, job_of
    defaults_of_emulator, datasets._defaults = datasets._defaults, defaults_of
    app.add_middleware(Door)
    analyzer()
