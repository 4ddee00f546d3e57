"""Reads Iceberg tables by Spark: one JSON document {table: rows} with rows in the form of published files.

Arguments: properties of the catalog and Spark as JSON, and the names of the tables as JSON. With a third one, `compact`, Spark first
rewrites the files of the first ones, as an administrator may do.
"""

import datetime
import json
import sys

from published_form import text
from pyspark.sql import SparkSession

COMPACTED = 8

settings, tables = json.loads(sys.argv[1]), json.loads(sys.argv[2])
builder = SparkSession.builder.master("local[1]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def shown(value, kind):
    if isinstance(value, datetime.datetime) and kind == "timestamp":
        return text(value.replace(tzinfo=datetime.timezone.utc))
    return text(bytes(value) if isinstance(value, bytearray) else value)


found = {}
for table in tables:
    if "compact" in sys.argv and len(found) < COMPACTED:
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    frame = spark.table(f"lake.{table}")
    kinds = dict(frame.dtypes)
    found[table] = [{name: shown(row[name], kinds[name]) for name in kinds} for row in frame.collect()]
sys.stdout.write(json.dumps(found))
spark.stop()
