"""Runs person-etl from Airflow: one run per night, by the command line.

Needs person-etl on the workers' PATH, a configuration, and a data_dir that outlives the worker. Exit codes: 3 (the service's
limit, or a confirmation is required) and 2 (wrong configuration) fail without a retry; 4 (another process is running the job)
is retried.
"""

import os
import subprocess
from datetime import datetime, timedelta

try:  # Airflow 3
    from airflow.sdk import dag, task
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # Airflow 2
    from airflow.decorators import dag, task
    from airflow.exceptions import AirflowException, AirflowFailException

CONFIG = os.environ.get("PERSON_ETL_CONFIG", "/etc/person-etl/config.yaml")
SHARDS = int(os.environ.get("PERSON_ETL_SHARDS", "1"))
NO_RETRY = (2, 3)


def person_etl(*arguments: str) -> None:
    """Runs the command; its log goes to the task's log."""
    code = subprocess.run(["person-etl", "--config", CONFIG, *arguments], check=False).returncode
    if code in NO_RETRY:
        raise AirflowFailException(f"person-etl ended with exit code {code}: see its log")
    if code != 0:
        raise AirflowException(f"person-etl ended with exit code {code}")


@dag(
    schedule="15 1 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=10)},
    tags=["person-etl"],
)
def person_etl_nightly():
    @task
    def check() -> None:
        person_etl("check")

    @task
    def migrate() -> None:
        person_etl("migrate")

    @task
    def run(shard: int, run_id: str | None = None) -> None:
        # A retry resumes the same run, with the rest of its caps.
        part = ["--shard", f"{shard}/{SHARDS}"] if SHARDS > 1 else []
        person_etl("run", "--run-id", str(run_id), "--wait", *part)

    check() >> migrate() >> run.expand(shard=list(range(SHARDS)))


person_etl_nightly()
