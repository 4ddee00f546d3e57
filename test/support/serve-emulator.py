"""Starts local-bigquery with a faster look-up of tables, which its answers don't depend on.

It asks DuckDB for tables and columns by listing all of them, with their statistics, of all projects, once or more per request and
per statement of a script: most of what a request costs where there are some dozens of tables. DuckLake's own metadata knows
the same at once.
"""

import duckdb
from local_bigquery.engine import database
from local_bigquery.jobs import query

listed, fetched, executed = database.objects, database.fetch, query.execute

# How it asks for these.
REQUIRED_COLUMNS = "SELECT column_name FROM duckdb_columns() WHERE database_name = ?"
HAS_COLUMN = "SELECT 1 FROM duckdb_columns() WHERE database_name = ?"
TEMPORARY_TABLES = "SELECT table_name FROM duckdb_tables() WHERE temporary"


def metadata(project_id):
    return database.quote(f"__ducklake_metadata_{project_id}")


def results(dataset_id, table_id):
    """Tables that results are kept in are DuckDB's own."""
    try:
        name = database.quote("emulator", dataset_id, table_id)
        [(rows,)] = fetched(f"SELECT count(*) FROM {name}")
    except duckdb.CatalogException:
        return []
    return [(table_id, "TABLE", rows)]


def objects(project_id, dataset_id, table_id=None):
    if table_id is None:
        return listed(project_id, dataset_id, table_id)
    if project_id == "emulator":
        return results(dataset_id, table_id)
    found = []
    for kind in ("table", "view"):
        found += fetched(
            f"SELECT {kind}_name, '{kind.upper()}', 0 FROM {metadata(project_id)}.ducklake_{kind} AS t "
            f"JOIN {metadata(project_id)}.ducklake_schema AS s USING (schema_id) "
            f"WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL AND lower(s.schema_name) = lower(?) "
            f"AND lower(t.{kind}_name) = lower(?)",
            [dataset_id, table_id],
        )
    return found


def columns(select, condition, project_id, dataset_id, table_id, *more):
    if project_id == "emulator":
        return []
    return fetched(
        f"SELECT {select} FROM {metadata(project_id)}.ducklake_column AS c "
        f"JOIN {metadata(project_id)}.ducklake_table AS t USING (table_id) "
        f"JOIN {metadata(project_id)}.ducklake_schema AS s USING (schema_id) "
        f"WHERE c.end_snapshot IS NULL AND t.end_snapshot IS NULL AND s.end_snapshot IS NULL "
        f"AND c.parent_column IS NULL AND s.schema_name = ? AND t.table_name = ? AND {condition}",
        [dataset_id, table_id, *more],
    )


def fetch(sql, params=None):
    if sql.startswith(REQUIRED_COLUMNS):
        return columns("c.column_name", "NOT c.nulls_allowed", *params)
    if sql.startswith(HAS_COLUMN):
        return columns("1", "c.column_name = ?", *params)
    return fetched(sql, params)


class NothingTemporary:
    """A cursor that is known to have no temporary tables yet."""

    def __init__(self, cursor):
        self.cursor = cursor

    def __getattr__(self, name):
        return getattr(self.cursor, name)

    def sql(self, text, **options):
        if text == TEMPORARY_TABLES:
            return self.cursor.sql("SELECT '' WHERE false")
        return self.cursor.sql(text, **options)


def execute(cursor, project_id, job_id, config, dry_run=False, session=None):
    own = cursor if session else NothingTemporary(cursor)
    return executed(own, project_id, job_id, config, dry_run, session)


database.objects = objects
database.fetch = fetch
query.execute = execute

if __name__ == "__main__":
    from local_bigquery.cli import main

    main()
