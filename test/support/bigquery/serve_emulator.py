"""Starts local-bigquery with faster look-ups, which its answers don't depend on.

It finds tables, columns and datasets by listing those of all projects with their statistics, several times per table that a
statement names, which takes longer than the statement. DuckLake's own metadata knows the same at once, and it is asked again
only after something was defined. What is known of tables, and of jobs, one for each statement of a script, is kept in memory
instead of on disk.
"""

import functools
import hashlib
import json
import threading

import duckdb
import sqlglot
from local_bigquery.catalog import datasets, metadata, names, row_access, tabledata, tables
from local_bigquery.engine import database, types
from local_bigquery.jobs import query, store
from local_bigquery.models import Job
from local_bigquery.sql import script, translate
from local_bigquery.sql.rules import partitions, typing
from sqlglot import exp

# Results of jobs are tables of this database, which is none of DuckLake's.
OWN = "emulator"


class Known:
    """What was looked up since something was last defined."""

    def __init__(self):
        self.lock = threading.Lock()
        self.generation = 0
        self.found = {}

    def forget(self, path=None):
        """Everything, or what is known of one table: project, dataset, name."""
        with self.lock:
            self.generation += 1
            if path is None:
                self.found.clear()
                return
            for key in [key for key in self.found if key[1:] in (path, path[:2])]:
                del self.found[key]

    def get(self, key, find):
        with self.lock:
            if key in self.found:
                return self.found[key]
            generation = self.generation
        value = find()
        with self.lock:
            if generation == self.generation:
                self.found[key] = value
        return value


known = Known()


# The table that this thread defines, where it is known.
defining = threading.local()


def forgetting(work):
    """After `work` a table may be defined otherwise; or any, where it isn't known which."""

    def wrapped(*args, **kwargs):
        try:
            return work(*args, **kwargs)
        finally:
            known.forget(getattr(defining, "path", None))

    return wrapped


def of_table(work, path_of):
    """`work`, which defines but the table that `path_of` finds in its arguments."""

    def wrapped(*args, **kwargs):
        defining.path = path_of(*args, **kwargs)
        try:
            return forgetting(work)(*args, **kwargs)
        finally:
            defining.path = None

    return wrapped


def lake_of(project_id):
    return database.quote(f"__ducklake_metadata_{project_id}")


def list_objects(project_id, dataset_id):
    lake = lake_of(project_id)
    parts = [
        f"SELECT {kind}_name, '{kind.upper()}', 0 FROM {lake}.ducklake_{kind} AS t "
        f"JOIN {lake}.ducklake_schema AS s USING (schema_id) "
        f"WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL AND lower(s.schema_name) = lower($1)"
        for kind in ("table", "view")
    ]
    return database.fetch(" UNION ALL ".join(parts) + " ORDER BY 1", [dataset_id])


def objects(project_id, dataset_id, table_id=None):
    if project_id == OWN:
        if table_id is None:
            return []
        try:
            database.fetch(f"SELECT 1 FROM {database.quote(project_id, dataset_id, table_id)} LIMIT 0")
        except duckdb.CatalogException:
            return []
        return [(table_id, "TABLE", 0)]
    if project_id not in database._attached:
        return []
    found = known.get(("objects", project_id, dataset_id), lambda: list_objects(project_id, dataset_id))
    return [one for one in found if table_id is None or one[0].lower() == table_id.lower()]


def column_names(project_id, dataset_id, table_id, condition):
    """Names of a table's columns that are as `condition` says."""
    lake = lake_of(project_id)
    found = database.fetch(
        f"SELECT c.column_name FROM {lake}.ducklake_column AS c JOIN {lake}.ducklake_table AS t USING (table_id) "
        f"JOIN {lake}.ducklake_schema AS s USING (schema_id) "
        f"WHERE c.end_snapshot IS NULL AND t.end_snapshot IS NULL AND s.end_snapshot IS NULL AND c.parent_column IS NULL "
        f"AND s.schema_name = ? AND t.table_name = ? AND {condition}",
        [dataset_id, table_id],
    )
    return {name for (name,) in found}


def find_columns(project_id, dataset_id, table_id):
    path = tables.physical(project_id, dataset_id, table_id)
    required = set() if path[0] == OWN else column_names(*path, "NOT c.nulls_allowed")
    with database.cursor() as cur:
        try:
            relation = cur.sql(f"SELECT * FROM {database.quote(*path)} LIMIT 0")
        except duckdb.CatalogException:
            label = tables.names.label(project_id, dataset_id, table_id)
            raise tables.not_found("Table", label) from None
        return [
            types.field(column, t, column in required)
            for column, t in zip(relation.columns, relation.types)
            if column != tables.INGESTION_TIME or dataset_id == tables.RESULTS
        ]


def columns(*path):
    if path[1] == tables.RESULTS:
        return find_columns(*path)
    return list(known.get(("columns", *path), lambda: find_columns(*path)))


def is_hidden(table):
    if not (table.catalog and table.db) or not isinstance(table.this, exp.Identifier):
        return False
    path = (table.catalog, table.db, table.name)
    if table.catalog == OWN or table.catalog not in database._attached:
        return False
    condition = f"c.column_name = '{tables.INGESTION_TIME}'"
    return bool(known.get(("hidden", *path), lambda: column_names(*path, condition)))


def dataset_exists(project_id, dataset_id):
    if project_id not in database._attached:
        return False
    statement = (
        f"SELECT 1 FROM {lake_of(project_id)}.ducklake_schema WHERE end_snapshot IS NULL AND schema_name = ?"
    )
    return bool(
        known.get(("dataset", project_id, dataset_id), lambda: database.fetch(statement, [dataset_id]))
    )


# Resources by kind, then by their keys.
resources = {kind: {} for kind in metadata.KINDS.values()}
resources_lock = threading.Lock()


def list_resources(model, *keys):
    kept = resources[metadata.KINDS[model]]
    with resources_lock:
        exact = kept.get(keys)
        return [exact] if exact else [kept[k] for k in kept if k[: len(keys)] == keys and len(k) > len(keys)]


def load_resource(model, *keys):
    return resources[metadata.KINDS[model]].get(keys)


def save_resource(resource, *keys):
    body = {k: v for k, v in resource.dump().items() if k != "etag"}
    etag = hashlib.md5(json.dumps(body, sort_keys=True).encode()).hexdigest()
    saved = resource.replace(etag=etag)
    with resources_lock:
        resources[metadata.KINDS[type(resource)]][keys] = saved
    return saved


def delete_resource(model, *keys):
    kept = resources[metadata.KINDS[model]]
    with resources_lock:
        for key in [key for key in kept if key[: len(keys)] == keys]:
            del kept[key]


def secured():
    return frozenset(key[:3] for key in list(resources["row_access_policies"]))


class Cursor:
    """A connection that knows without asking that it is new: it has no temporary tables."""

    def __init__(self, real):
        self.real = real

    def sql(self, text, *args, **kwargs):
        if text == "SELECT table_name FROM duckdb_tables() WHERE temporary":
            text = "SELECT 'none' AS table_name LIMIT 0"
        return self.real.sql(text, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.real, name)


run_query, run_statement, write_table = query.execute, query._run, tables.write


def execute(cur, project_id, job_id, config, dry_run=False, session=None):
    return run_query(cur if session else Cursor(cur), project_id, job_id, config, dry_run, session)


def run(cur, tree, context, *rest):
    if not isinstance(tree, (*query.DDL, exp.Command)) or tree.find(exp.TemporaryProperty):
        return run_statement(cur, tree, context, *rest)
    target = tree.find(exp.Table)
    if tree.args.get("kind") not in ("TABLE", "VIEW") or target is None:
        return forgetting(run_statement)(cur, tree, context, *rest)
    path = names.reference(target, context.project_id, context.dataset_id)
    return of_table(run_statement, lambda *_: path)(cur, tree, context, *rest)


def write(cur, text, params, reference, *rest, **named):
    work = write_table
    if reference[1] != tables.RESULTS:
        work = of_table(write_table, lambda *_, **__: reference)
    return work(cur, text, params, reference, *rest, **named)


@functools.lru_cache(2000)
def parsed(text):
    return translate.parse(text)


@functools.lru_cache(2000)
def parsed_one(text):
    return sqlglot.parse_one(text, dialect=script.BigQueryDialect)


class Parser:
    """sqlglot as the interpreter of scripts uses it, which reads the same text again and again."""

    errors = sqlglot.errors

    @staticmethod
    def parse_one(text, dialect):
        return parsed_one(text).copy()


# Jobs as JSON with what they are listed by, by project and id.
jobs = {}
jobs_lock = threading.Lock()


def save_job(job):
    reference = job.jobReference
    listed_by = (job.statistics.parentJobId, job.status.state, int(job.statistics.creationTime))
    with jobs_lock:
        jobs[(reference.projectId, reference.jobId)] = (json.dumps(job.dump()), *listed_by)
    return job


def load_job(project_id, job_id):
    found = jobs.get((project_id, job_id))
    return Job.model_validate_json(found[0]) if found else None


def list_jobs(project_id, states=None, parent_job_id=None, min_creation_time=None, max_creation_time=None):
    with jobs_lock:
        found = [
            (-created, key[1], text)
            for key, (text, parent, state, created) in jobs.items()
            if key[0] == project_id
            and parent == parent_job_id
            and (states is None or state in states)
            and created >= (min_creation_time or created)
            and created <= (max_creation_time or created)
        ]
    return [Job.model_validate_json(text) for _, _, text in sorted(found)]


def delete_job(project_id, job_id):
    with jobs_lock:
        for key in [key for key, job in jobs.items() if key[0] == project_id and job_id in (key[1], job[1])]:
            del jobs[key]


# The emulator's decimals have 38 digits in all; 20 of them behind the point, as in DuckDB files.
for alias in ("BIGNUMERIC", "BIGDECIMAL"):
    types.TO_DUCKDB[alias] = "DECIMAL(38,20)"
typing.DECIMALS[exp.DataType.Type.BIGDECIMAL] = "DECIMAL(38, 20)"
database.objects = objects
database.execute = forgetting(database.execute)
tables.columns = tabledata.columns = columns
tables.write = write
tables.create = tabledata.create = of_table(tables.create, lambda p, d, body, *_, **__: (p, d, body.tableReference and body.tableReference.tableId))
tables.delete = of_table(tables.delete, lambda *path: path)
script.parse = lambda text: [tree.copy() for tree in parsed(text)]
script.sqlglot = Parser
partitions._hidden = is_hidden
datasets.exists = dataset_exists
metadata.list_, metadata.load = list_resources, load_resource
metadata.save, metadata.delete = save_resource, delete_resource
row_access.secured = secured
query.execute, query._run = execute, run
store.save, store.load, store.list_, store.delete = save_job, load_job, list_jobs, delete_job

if __name__ == "__main__":
    import door
    from local_bigquery.cli import main

    door.install()
    main()
