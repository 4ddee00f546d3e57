"""Enriches the rows of crm.customers and loads the answers into Postgres: one dlt resource and one parallel transformer."""

import argparse
import json

import dlt
import orjson
import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from dlt.sources.helpers import requests

FIELDS = ["first_name", "last_name", "linkedin_url", "address_line_1", "city", "state", "zipcode"]
# Equal rows are sent once, as person-etl does.
QUERY = """
    SELECT array_agg(id::text), first_name, last_name, linkedin, street, city, state, zip,
           array_remove(ARRAY[email, work_email], NULL), array_remove(ARRAY[phone], NULL)
      FROM crm.customers GROUP BY 2, 3, 4, 5, 6, 7, 8, 9, 10
"""
ARROW = {
    "text": pa.string(),
    "text[]": pa.list_(pa.string()),
    "integer": pa.int64(),
    "position": pa.int32(),
    "numeric": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.string(),
}

parser = argparse.ArgumentParser()
for name in ("service", "postgres", "dataset", "work-folder", "declaration", "batch"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--normalizing", choices=["flattened", "automatic"], required=True)
parser.add_argument("--disposition", choices=["append", "delete-insert", "upsert"], required=True)
parser.add_argument("--format", choices=["csv", "parquet"], required=True)
args = parser.parse_args()

with open(args.declaration, encoding="utf-8") as file:
    declaration = json.load(file)


@dlt.resource(selected=False)
def batches():
    """Yields requests with the keys of the input rows behind each record."""
    connection = psycopg2.connect(args.postgres)
    with connection, connection.cursor("rows") as cursor:
        cursor.itersize = 5000
        cursor.execute(QUERY)
        while rows := cursor.fetchmany(int(args.batch)):
            records = []
            for number, (_, *values, emails, phones) in enumerate(rows):
                record = {name: value for name, value in zip(FIELDS, values) if value is not None}
                record["record_id"] = str(number)
                if emails:
                    record["emails"] = emails
                if phones:
                    record["phones"] = phones
                records.append(record)
            yield [row[0] for row in rows], orjson.dumps({"records": records})
    connection.close()


def send(body):
    """Sends one request and returns the answer as bytes."""
    headers = {"content-type": "application/json", "x-api-key": "bench", "accept-encoding": "identity"}
    return requests.post(f"{args.service}/v2/enrich", data=body, headers=headers).content


def struct_of(fields):
    return pa.struct([(name, ARROW[kind]) for name, kind in fields])


def answer_schema():
    lists = [(name, pa.list_(struct_of(spec["fields"]))) for name, spec in declaration["lists"].items()]
    answer_fields = [("record_id", pa.string()), ("is_match", pa.bool_()), ("match_score", pa.float64())]
    result = pa.struct([*answer_fields, *struct_of(declaration["person"]), *lists])
    texts = [("api_request_id", pa.string()), ("request_completed_at", pa.string())]
    return pa.schema([*texts, ("results", pa.list_(result))])


SCHEMA = answer_schema()


def read_answer(answer):
    """Parses an answer into Arrow without Python objects; returns the call's columns and the results."""
    table = pyarrow.json.read_json(
        pa.BufferReader(answer),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(answer) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore"),
    )
    call = {name: table[name][0] for name in ("api_request_id", "request_completed_at")}
    return call, table["results"].combine_chunks().flatten()


def answers_by_row(keys, call, results):
    """Returns one row per input row."""
    numbers = results.field("record_id").to_pylist()
    index = [at for at, number in enumerate(numbers) for _ in keys[int(number)]]
    rows = results.take(pa.array(index, pa.int64()))
    columns = {"source_key": pa.array([key for number in numbers for key in keys[int(number)]], pa.string())}
    for name in ("is_match", "service_pid", "match_score"):
        columns[name] = rows.field(name)
    for name, value in call.items():
        columns[name] = pa.repeat(value, len(rows))
    return pa.table(columns)


seen = set()


def is_new(pid):
    """True for the first result of a person in this run: different rows can match one person."""
    if pid is None or pid in seen:
        return False
    seen.add(pid)
    return True


def columns_of(structs, fields):
    columns = {}
    for name, kind in fields:
        array = structs.field(name)
        if kind == "date":
            array = array.cast(pa.date32())
        if kind == "text[]":
            array = pa.array([orjson.dumps(texts).decode() for texts in array.to_pylist()], pa.string())
        columns[name] = array
    return columns


def child_table(people, name):
    """Returns the elements of one list of all people, with the PID and the position."""
    lists = people.field(name)
    parents = pc.list_parent_indices(lists)
    firsts = pc.subtract(lists.offsets[:-1], lists.offsets[0]).take(parents)
    spec = declaration["lists"][name]
    columns = {
        "service_pid": people.field("service_pid").take(parents),
        "position": pc.subtract(pa.array(range(len(parents)), pa.int32()), firsts),
    }
    if "discriminator" in spec:
        columns["email_type"] = pa.repeat(pa.scalar(spec["discriminator"]), len(parents))
    return pa.table(columns | columns_of(lists.flatten(), spec["fields"]))


# Primary key and merge key; other tables are lists of a person, replaced as a whole.
KEYS = {
    "enrichment": ("source_key", None),
    "person": ("service_pid", None),
    "person_email": (["service_pid", "email_type", "position"], "service_pid"),
}


def hints(table):
    primary, merge = KEYS.get(table, (["service_pid", "position"], "service_pid"))
    if args.disposition == "append":
        return dlt.mark.make_hints(table_name=table, write_disposition="append", primary_key=primary)
    if args.disposition == "delete-insert" and merge is not None:
        # Both keys would join twice; a list has no duplicates to remove.
        return dlt.mark.make_hints(
            table_name=table, write_disposition={"disposition": "merge", "strategy": "delete-insert"}, merge_key=merge
        )
    return dlt.mark.make_hints(
        table_name=table, write_disposition={"disposition": "merge", "strategy": args.disposition}, primary_key=primary
    )


@dlt.transformer(parallelized=True)
def flattened(batch):
    """Yields hand-made Arrow tables: no normalizing."""
    keys, body = batch
    call, results = read_answer(send(body))
    people = results.filter(pa.array([is_new(pid) for pid in results.field("service_pid").to_pylist()], pa.bool_()))
    tables = {"enrichment": [answers_by_row(keys, call, results)]}
    tables["person"] = [pa.table(columns_of(people, declaration["person"]))]
    for name, spec in declaration["lists"].items():
        tables.setdefault(spec["table"], []).append(child_table(people, name))
    for table, parts in tables.items():
        yield dlt.mark.with_hints(pa.concat_tables(parts), hints(table), create_table_variant=True)


@dlt.transformer(parallelized=True)
def automatic(batch):
    """Yields the answer's objects: dlt infers tables, child tables and types."""
    keys, body = batch
    answer = orjson.loads(send(body))
    call = {name: answer[name] for name in ("api_request_id", "request_completed_at")}
    rows = [
        {"source_key": key, **call, **{name: result[name] for name in ("is_match", "service_pid", "match_score")}}
        for result in answer["results"]
        for key in keys[int(result["record_id"])]
    ]
    people = [result for result in answer["results"] if is_new(result["service_pid"])]
    yield dlt.mark.with_hints(rows, hints("enrichment"), create_table_variant=True)
    yield dlt.mark.with_hints(people, hints("person"), create_table_variant=True)


@dlt.source(root_key=True)
def service():
    """Root keys let a later run merge child tables that an earlier one appended."""
    return batches | (flattened if args.normalizing == "flattened" else automatic)


pipeline = dlt.pipeline(
    pipeline_name=args.dataset,
    pipelines_dir=args.work_folder,
    destination=dlt.destinations.postgres(args.postgres),
    dataset_name=args.dataset,
)
pipeline.run(service(), loader_file_format=args.format).raise_on_failed_jobs()
