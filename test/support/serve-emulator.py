"""Starts local-bigquery with a faster look-up of tables, which its answers don't depend on.

It finds a table by listing all tables of all projects with their statistics, once or more per request: half of what a
request costs where there are some dozens of tables. DuckLake's own metadata knows the same at once.
"""

from local_bigquery.engine import database

listed = database.objects


def objects(project_id, dataset_id, table_id=None):
    if table_id is None or project_id == "emulator":
        return listed(project_id, dataset_id, table_id)
    metadata = database.quote(f"__ducklake_metadata_{project_id}")
    found = []
    for kind in ("table", "view"):
        found += database.fetch(
            f"SELECT {kind}_name, '{kind.upper()}', 0 FROM {metadata}.ducklake_{kind} AS t "
            f"JOIN {metadata}.ducklake_schema AS s USING (schema_id) "
            f"WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL AND lower(s.schema_name) = lower(?) "
            f"AND lower(t.{kind}_name) = lower(?)",
            [dataset_id, table_id],
        )
    return found


database.objects = objects

if __name__ == "__main__":
    from local_bigquery.cli import main

    main()
