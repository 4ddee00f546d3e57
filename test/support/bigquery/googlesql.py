"""Google's own SQL analyzer (GoogleSQL as WebAssembly, from the package zetasql), set up as BigQuery's documentation describes its SQL.

`check` parses a script, splits it into statements and type-checks each of them against the given tables. `evaluate` and `modify`
run an expression or a statement by Google's reference implementation.
"""

import ctypes
import os
import pathlib
import re
import threading

import zetasql.wasi
from google.protobuf import empty_pb2
from wasmtime import Config, Engine, Linker, Module, Store, WasiConfig
from zetasql.core.wasm_client import get_tzinfo_dir
from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2 as service
from zetasql.wasi._pb2.zetasql.proto import options_pb2, simple_catalog_pb2
from zetasql.wasi._pb2.zetasql.public import options_pb2 as public
from zetasql.wasi._pb2.zetasql.public import simple_table_pb2, type_pb2

# What BigQuery's reference documents, in the enum's names without their version.
FEATURES = {
    # Queries.
    *("ANALYTIC_FUNCTIONS", "GROUP_BY_ALL", "GROUP_BY_ROLLUP", "GROUPING_BUILTIN", "GROUPING_SETS", "HAVING_IN_AGGREGATE"),
    *("IS_DISTINCT", "LIKE_ANY_SOME_ALL", "LIMIT_IN_AGGREGATE", "NULL_HANDLING_MODIFIER_IN_AGGREGATE"),
    *("NULL_HANDLING_MODIFIER_IN_ANALYTIC", "NULLS_FIRST_LAST_IN_ORDER_BY", "ORDER_BY_IN_AGGREGATE", "PIVOT", "QUALIFY"),
    *("SELECT_STAR_EXCEPT_REPLACE", "TABLESAMPLE", "TABLE_VALUED_FUNCTIONS", "UNNEST_AND_FLATTEN_ARRAYS", "UNPIVOT"),
    *("WITH_ON_SUBQUERY", "WITH_RECURSIVE", "FOR_SYSTEM_TIME_AS_OF", "ALLOW_DASHES_IN_TABLE_NAME"),
    # Types and functions.
    *("ADDITIONAL_STRING_FUNCTIONS", "ALLOW_REGEXP_EXTRACT_OPTIONALS", "ARRAY_AGGREGATION_FUNCTIONS", "BIGNUMERIC_TYPE"),
    *("CBRT_FUNCTIONS", "CIVIL_TIME", "COLLATION_SUPPORT", "ANNOTATION_FRAMEWORK", "CONCAT_MIXED_TYPES", "DATE_ARITHMETICS"),
    *("DATE_TIME_CONSTRUCTORS", "DECIMAL_ALIAS", "EXTENDED_DATE_TIME_SIGNATURES", "EXTENDED_GEOGRAPHY_PARSERS"),
    *("FORMAT_IN_CAST", "GEOGRAPHY", "INTERVAL_TYPE", "INVERSE_TRIG_FUNCTIONS", "JSON_ARRAY_FUNCTIONS", "JSON_TYPE"),
    *("JSON_VALUE_EXTRACTION_FUNCTIONS", "JSON_LAX_VALUE_EXTRACTION_FUNCTIONS", "JSON_CONSTRUCTOR_FUNCTIONS"),
    *("JSON_MUTATOR_FUNCTIONS", "NAMED_ARGUMENTS", "NUMERIC_TYPE", "PARAMETERIZED_TYPES", "ROUND_WITH_ROUNDING_MODE"),
    *("SAFE_FUNCTION_CALL", "TEMPLATE_FUNCTIONS", "TIME_BUCKET_FUNCTIONS", "WEEK_WITH_WEEKDAY", "RANGE_TYPE"),
    # DDL and DML.
    *("ALLOW_MISSING_PATH_EXPRESSION_IN_ALTER_DDL", "ALTER_COLUMN_SET_DATA_TYPE", "ALTER_TABLE_RENAME_COLUMN"),
    *("COLUMN_DEFAULT_VALUE", "CREATE_MATERIALIZED_VIEW_CLUSTER_BY", "CREATE_MATERIALIZED_VIEW_PARTITION_BY"),
    *("CREATE_SNAPSHOT_TABLE", "CREATE_TABLE_AS_SELECT_COLUMN_LIST", "CREATE_TABLE_CLONE", "CREATE_TABLE_CLUSTER_BY"),
    *("CREATE_TABLE_COPY", "CREATE_TABLE_FIELD_ANNOTATIONS", "CREATE_TABLE_FUNCTION", "CREATE_TABLE_LIKE"),
    *("CREATE_TABLE_NOT_NULL", "CREATE_TABLE_PARTITION_BY", "CREATE_VIEW_WITH_COLUMN_LIST", "CREATE_VIEWS_WITH_COLUMN_OPTIONS", "FOREIGN_KEYS"),
    *("DML_UPDATE_WITH_JOIN", "OMIT_INSERT_COLUMN_LIST", "PARAMETERS_IN_GRANTEE_LIST", "UNENFORCED_PRIMARY_KEYS"),
    # Scripts.
    *("CASE_STMT", "FOR_IN", "REPEAT", "SCRIPT_LABEL"),
}

KINDS = {
    "BIGNUMERIC": "BIGNUMERIC",
    "BOOL": "BOOL",
    "BOOLEAN": "BOOL",
    "BYTES": "BYTES",
    "DATE": "DATE",
    "DATETIME": "DATETIME",
    "FLOAT": "DOUBLE",
    "FLOAT64": "DOUBLE",
    "GEOGRAPHY": "GEOGRAPHY",
    "INT64": "INT64",
    "INTEGER": "INT64",
    "INTERVAL": "INTERVAL",
    "JSON": "JSON",
    "NUMERIC": "NUMERIC",
    "STRING": "STRING",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
}

INFORMATION_SCHEMA = {
    "COLUMNS": "table_catalog table_schema table_name column_name is_nullable data_type",
    "TABLE_OPTIONS": "table_catalog table_schema table_name option_name option_type option_value",
    "TABLES": "table_catalog table_schema table_name table_type ddl",
}

SYSTEM_VARIABLES = {"row_count": "INT64", "time_zone": "STRING", "error.message": "STRING"}


class SqlError(Exception):
    """What Google's analyzer says against a statement."""


def scalar(name):
    return type_pb2.TypeProto(type_kind=type_pb2.TypeKind.Value(f"TYPE_{KINDS[name.upper()]}"))


def array(element):
    found = type_pb2.TypeProto(type_kind=type_pb2.TYPE_ARRAY)
    found.array_type.element_type.CopyFrom(element)
    return found


def struct(fields):
    found = type_pb2.TypeProto(type_kind=type_pb2.TYPE_STRUCT)
    for name, field_type in fields:
        found.struct_type.field.add(field_name=name).field_type.CopyFrom(field_type)
    return found


def type_of_field(field):
    """Type of a column as the REST interface describes it."""
    kind = field["type"].upper()
    if kind in ("RECORD", "STRUCT"):
        found = struct([(f["name"], type_of_field(f)) for f in field["fields"]])
    else:
        found = scalar(kind)
    return array(found) if field.get("mode") == "REPEATED" else found


def type_of_parameter(declared):
    """Type of a query parameter as the REST interface describes it."""
    kind = declared["type"].upper()
    if kind == "ARRAY":
        return array(type_of_parameter(declared["arrayType"]))
    if kind == "STRUCT":
        return struct([(f.get("name", ""), type_of_parameter(f["type"])) for f in declared["structTypes"]])
    return scalar(kind)


def language():
    options = options_pb2.LanguageOptionsProto(
        name_resolution_mode=public.NAME_RESOLUTION_DEFAULT, product_mode=public.PRODUCT_EXTERNAL
    )
    known = set()
    for name, value in public.LanguageFeature.items():
        plain = re.sub(r"^(FEATURE_)?(V_\d_\d_)?", "", name)
        if plain in FEATURES and plain not in known:
            known.add(plain)
            options.enabled_language_features.append(value)
    if known != FEATURES:
        raise ValueError(f"The analyzer lacks {FEATURES - known}")
    options.reserved_keywords.append("QUALIFY")
    return options


class Service:
    """The local service of the WebAssembly build: protobufs in, protobufs out."""

    def __init__(self):
        wasi = WasiConfig()
        zones = get_tzinfo_dir()
        if zones:
            wasi.preopen_dir(zones, "/usr/share/zoneinfo")
        config = Config()
        config.shared_memory = True
        engine = Engine(config)
        self.store = Store(engine)
        self.store.set_wasi(wasi)
        linker = Linker(engine)
        linker.define_wasi()
        self.exports = linker.instantiate(self.store, self.load(engine)).exports(self.store)
        self.exports["_initialize"](self.store)
        self.lock = threading.Lock()

    @staticmethod
    def load(engine):
        # Compiling takes 12 seconds and 1 GB, once per installation.
        cache = pathlib.Path.home() / "googlesql.cwasm"
        if cache.exists():
            return Module.deserialize_file(engine, str(cache))
        module = Module.from_file(engine, zetasql.wasi.get_wasm_path())
        draft = cache.with_suffix(f".{os.getpid()}")
        draft.write_bytes(module.serialize())
        draft.rename(cache)
        return module

    def call(self, method, request, answer):
        with self.lock:
            return self.call_alone(method, request, answer)

    def call_alone(self, method, request, answer):
        exports, store = self.exports, self.store
        # The memory may grow and move with each call.
        start = lambda: ctypes.addressof(exports["memory"].data_ptr().contents)
        data = request.SerializeToString()
        given = exports["wasm_malloc"](store, max(1, len(data)))
        size = exports["wasm_malloc"](store, 4)
        try:
            ctypes.memmove(start() + given, data, len(data))
            found = exports[f"ZetaSqlLocalService_{method}"](store, given, len(data), size)
            if found == 0:
                length = exports["wasm_get_last_error_size"](store)
                message = ctypes.string_at(start() + exports["wasm_get_last_error"](store), length)
                raise SqlError(message.decode())
            length = int.from_bytes(ctypes.string_at(start() + size, 4), "little")
            answer.ParseFromString(ctypes.string_at(start() + found, length))
            exports["wasm_free"](store, found)
            return answer
        finally:
            exports["wasm_free"](store, given)
            exports["wasm_free"](store, size)


def names_in(text):
    """Words and quoted names of a script, in lower case."""
    lower = text.lower()
    return {*re.findall(r"\w+", lower), *re.findall(r"`([^`]+)`", lower)}


def concrete(node):
    """The node inside of an Any…Proto; None where there is none."""
    while node is not None and node.DESCRIPTOR.name.startswith("Any"):
        kind = node.WhichOneof("node")
        node = None if kind is None else getattr(node, kind)
    return node


def ancestors(node):
    """A node, then itself as each of its parent classes."""
    while node is not None:
        node = concrete(node)
        if node is None:
            return
        yield node
        node = node.parent if "parent" in node.DESCRIPTOR.fields_by_name else None


def attribute(node, name):
    """An attribute of a node or of a parent class; None where no class has it."""
    for one in ancestors(node):
        if name in one.DESCRIPTOR.fields_by_name:
            return getattr(one, name)
    return None


def table_of(name, columns):
    table = simple_table_pb2.SimpleTableProto(name=name)
    for column, column_type in columns:
        table.column.add(name=column, is_writable_column=True).type.CopyFrom(column_type)
    return table


class Analyzer:
    def __init__(self):
        self.service = Service()
        self.language = language()

    def check(self, script, tables, parameters, default):
        """Raises SqlError where BigQuery would refuse a script.

        `tables` maps (project, dataset, table) to columns: pairs of name and type. `default` is the pair of project and
        dataset that unqualified names belong to; the dataset may be None.
        """
        Script(self, script, tables, parameters, default).check()

    def parse(self, script):
        request = service.ParseRequest(sql_statement=script, allow_script=True)
        request.options.CopyFrom(self.language)
        return self.service.call("Parse", request, service.ParseResponse()).parsed_script


    def options(self, options):
        options.language_options.CopyFrom(self.language)
        options.error_message_mode = public.ERROR_MESSAGE_ONE_LINE
        options.default_timezone = "UTC"

    def evaluate(self, expression):
        """Value of an expression without tables."""
        request = service.EvaluateRequest(sql=expression)
        self.options(request.options)
        return self.service.call("Evaluate", request, service.EvaluateResponse()).value

    def modify(self, statement, tables):
        """Rows that a statement inserts or deletes. `tables` maps names to texts: columns, the first of which is the key, and rows."""
        request = service.EvaluateModifyRequest(sql=statement)
        self.options(request.options)
        catalog = request.simple_catalog
        catalog.name = "root"
        catalog.builtin_function_options.language_options.CopyFrom(self.language)
        for serial, (name, (columns, rows)) in enumerate(tables.items(), 1):
            table = catalog.table.add()
            table.CopyFrom(table_of(name, [(column, scalar("STRING")) for column in columns]))
            table.serialization_id = serial
            # Deleted rows are named by their key; an INSERT into a table with one traps.
            if statement.startswith("DELETE"):
                table.primary_key_column_index.append(0)
            content = request.table_content[name].table_data
            for cells in rows:
                row = content.row.add()
                for cell in cells:
                    row.cell.add(string_value=cell)
        return self.service.call("EvaluateModify", request, service.EvaluateModifyResponse())


class Script:
    """One script that is being checked: what it declared and created so far."""

    def __init__(self, analyzer, text, tables, parameters, default):
        self.analyzer, self.service = analyzer, analyzer.service
        self.bytes = text.encode()
        self.text = text
        self.tables, self.parameters, self.default = dict(tables), parameters, default
        self.temporary, self.variables = {}, {}
        self.catalog_id, self.registered = None, None

    def check(self):
        script = self.analyzer.parse(self.text)
        try:
            self.statements(script.statement_list_node)
        finally:
            self.forget()

    def source(self, node):
        found = attribute(node, "parse_location_range")
        return self.bytes[found.start : found.end].decode()

    def forget(self):
        """The catalog has changed."""
        if self.catalog_id is not None:
            request = service.UnregisterRequest(registered_id=self.catalog_id)
            self.service.call("UnregisterCatalog", request, empty_pb2.Empty())
            self.catalog_id = None

    def catalog(self, statement):
        """A catalog of the tables that a statement names."""
        words = names_in(statement)
        named = {path for path in [*self.tables, *self.temporary] if (path if isinstance(path, str) else path[2]).lower() in words}
        if self.catalog_id is None or named != self.registered:
            self.forget()
            request = service.RegisterCatalogRequest()
            self.fill(request.simple_catalog, named)
            self.catalog_id = self.service.call("RegisterCatalog", request, service.RegisterResponse()).registered_id
            self.registered = named
        return self.catalog_id

    def fill(self, root, named):
        root.name = "root"
        root.builtin_function_options.language_options.CopyFrom(self.analyzer.language)
        serial = iter(range(1, 1_000_000))
        catalogs = {(): root}

        def folder(*path):
            if path not in catalogs:
                catalogs[path] = folder(*path[:-1]).catalog.add(name=path[-1])
            return catalogs[path]

        def put(path, name, columns):
            table = folder(*path).table.add()
            table.CopyFrom(table_of(name, columns))
            table.serialization_id = next(serial)

        datasets = {(project, dataset) for project, dataset, _ in self.tables}
        for project, dataset in datasets:
            for name, columns in INFORMATION_SCHEMA.items():
                texts = [(column, scalar("STRING")) for column in columns.split()]
                put((project, dataset, "INFORMATION_SCHEMA"), name, texts)
        for (project, dataset, name), columns in self.tables.items():
            if (project, dataset, name) not in named:
                continue
            put((project, dataset), name, columns)
            if project == self.default[0]:
                put((dataset,), name, columns)
            if (project, dataset) == self.default and name.lower() not in self.temporary:
                put((), name, columns)
        for name, columns in self.temporary.items():
            if name in named:
                put((), name, columns)
        for name, variable_type in self.variables.items():
            constant = root.constant.add(name_path=[name])
            constant.type.CopyFrom(variable_type)
            constant.value.SetInParent()

    def analyze(self, statement, target=None):
        request = service.AnalyzeRequest(registered_catalog_id=self.catalog(statement), sql_statement=statement)
        options = request.options
        self.analyzer.options(options)
        for name, parameter_type in self.parameters:
            options.query_parameters.add(name=name).type.CopyFrom(parameter_type)
        for name, kind in SYSTEM_VARIABLES.items():
            options.system_variables.add(name_path=name.split(".")).type.CopyFrom(scalar(kind))
        if target is not None:
            options.target_column_types.add().CopyFrom(target)
        return concrete(self.service.call("Analyze", request, service.AnalyzeResponse()).resolved_statement)

    def expression(self, node, target=None):
        """Type of an expression, which has to fit `target`."""
        resolved = self.analyze(f"SELECT {self.source(node)}", target)
        return attribute(resolved, "output_column_list")[0].column.type

    def statements(self, statement_list):
        for statement in statement_list.statement_list:
            node = concrete(statement)
            kind = re.sub("^AST|Proto$", "", node.DESCRIPTOR.name)
            work = getattr(self, f"do_{kind}", None)
            if work is not None:
                work(node)
            else:
                self.define(self.analyze(self.source(node)))

    def do_VariableDeclaration(self, node):
        declared = None
        if concrete(node.type) is not None:
            resolved = self.analyze(f"SELECT CAST(NULL AS {self.source(node.type)}) AS x")
            declared = attribute(resolved, "output_column_list")[0].column.type
        if concrete(node.default_value) is not None:
            found = self.expression(node.default_value, declared)
            declared = declared or found
        for identifier in node.variable_list.identifier_list:
            self.variables[identifier.id_string] = declared
        self.forget()

    def do_SingleAssignment(self, node):
        name = node.variable.id_string
        if name not in self.variables:
            raise SqlError(f"Undeclared variable: {name}")
        self.expression(node.expression, self.variables[name])

    def do_IfStatement(self, node):
        self.expression(node.condition, scalar("BOOL"))
        self.statements(node.then_list)
        for other in node.elseif_clauses.elseif_clauses:
            self.expression(other.condition, scalar("BOOL"))
            self.statements(other.body)
        if node.HasField("else_list"):
            self.statements(node.else_list)

    def do_WhileStatement(self, node):
        self.expression(node.condition, scalar("BOOL"))
        self.statements(attribute(node, "body"))

    def do_BeginEndBlock(self, node):
        self.statements(node.statement_list_node)
        for handler in node.handler_list.exception_handler_list:
            self.statements(handler.statement_list)

    def do_RaiseStatement(self, node):
        if concrete(node.message) is not None:
            self.expression(node.message, scalar("STRING"))

    def do_BeginStatement(self, _):
        pass

    do_CommitStatement = do_RollbackStatement = do_BeginStatement

    def define(self, resolved):
        """A table or view that a statement creates is known to the following ones."""
        path = attribute(resolved, "name_path")
        if not path or not re.search("Create.*(Table|View)", resolved.DESCRIPTOR.name):
            return
        defined = attribute(resolved, "column_definition_list")
        if defined:
            columns = [(column.name, column.type) for column in defined]
        else:
            columns = [(one.name, one.column.type) for one in attribute(resolved, "output_column_list") or []]
        if attribute(resolved, "create_scope") == resolved_temporary():
            defined, self.temporary[path[0].lower()] = path[0].lower(), columns
        else:
            defined = (*self.default[: 3 - len(path)], *path)
            self.tables[defined] = columns
        if defined in self.registered:
            self.forget()


def resolved_temporary():
    from zetasql.wasi._pb2.zetasql.resolved_ast import resolved_ast_enums_pb2 as enums

    return enums.ResolvedCreateStatementEnums.CREATE_TEMP
