"""Loaded by the Python of dbt. BigQuery states the table that CREATE TABLE AS writes; the emulator leaves it out."""

try:
    from google.cloud.bigquery.job import QueryJob
except ImportError:
    pass
else:
    stated = QueryJob.destination.fget
    QueryJob.destination = property(lambda job: stated(job) or job.ddl_target_table)
