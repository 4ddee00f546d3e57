import { fileURLToPath } from "node:url";
import { API, type Checker, type Symbol, SymbolFlags, type Type, TypeFlags } from "typescript/unstable/sync";

type JsonSchema = Readonly<Record<string, unknown>>;

const root = fileURLToPath(new URL("..", import.meta.url));

/** JSON Schema of the documents that commands print with `--json`, derived from their TypeScript types. */
export function documentSchema(): object {
  const types = `${root}scripts/command-documents.ts`;
  const configFile = `${root}tsconfig.documents.json`;
  const config = JSON.stringify({ extends: "./tsconfig.json", include: [], files: [types] });
  // A project of this file and what it imports, which is read in half the time.
  const api = new API({
    cwd: root,
    fs: {
      readFile: (name) => (name === configFile ? config : undefined),
      fileExists: (name) => (name === configFile ? true : undefined),
    },
  });
  try {
    const project = api.updateSnapshot({ openProjects: [configFile] }).getProjects()[0];
    const file = project?.program.getSourceFile(types);
    const module = file && project?.checker.getSymbolAtLocation(file);
    if (!project || !module) throw new Error("the types of the documents were not found");
    return schemaOfModule(project.checker, module);
  } finally {
    api.close();
  }
}

function schemaOfModule(checker: Checker, module: Symbol): object {
  const exported = (name: string) => {
    const found = checker.getExportsOfModule(module).find((symbol) => symbol.name === name);
    if (!found) throw new Error(`scripts/command-documents.ts exports no ${name}`);
    return checker.getDeclaredTypeOfSymbol(found);
  };
  const converter = createConverter(checker);
  const failed = converter.refer(exported("Failed"));
  const commands = checker.getPropertiesOfType(exported("CommandDocuments")).map((property) => {
    const { type } = converter.read(property);
    const document = converter.convert(type);
    const options = Array.isArray(document["anyOf"]) ? document["anyOf"] : [document];
    return [property.name, { anyOf: [...options, failed] }] as const;
  });
  const $defs = { ...Object.fromEntries(commands), ...converter.named };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Documents of person-etl --json",
    description: "One definition per command, such as #/$defs/run. Later versions may add keys.",
    $defs,
  };
}

function createConverter(checker: Checker) {
  const named: Record<string, JsonSchema> = {};
  /** Type behind each name, to find two types of the same name. */
  const ids = new Map<string, number>();

  function convert(type: Type): JsonSchema {
    const is = (flags: TypeFlags) => (type.flags & flags) !== 0;
    if (is(TypeFlags.AnyOrUnknown | TypeFlags.NonPrimitive)) return {};
    if (is(TypeFlags.Never)) return { not: {} };
    if (is(TypeFlags.Null)) return { type: "null" };
    if (type.isLiteralType()) return { const: type.value };
    if (is(TypeFlags.StringLike)) return { type: "string" };
    if (is(TypeFlags.NumberLike)) return { type: "number" };
    if (is(TypeFlags.BooleanLike)) return { type: "boolean" };
    if (type.isUnionType()) return convertUnion(type.getTypes());
    if (type.isIntersectionType()) {
      const primitive = type.getTypes().find((part) => (part.flags & TypeFlags.Primitive) !== 0);
      return primitive ? convert(primitive) : convertObject(type);
    }
    if (checker.isArrayLikeType(type) && type.isTypeReference()) {
      const items = checker.getTypeArguments(type).map(convert);
      return checker.isTupleType(type)
        ? { type: "array", prefixItems: items, minItems: items.length, maxItems: items.length }
        : { type: "array", items: items[0] };
    }
    if (type.isObjectType()) return type.isClassOrInterface() ? refer(type) : convertObject(type);
    throw new Error(`${checker.typeToString(type)} has no JSON Schema`);
  }

  /** Schema of a named type, under its name. */
  function refer(type: Type): JsonSchema {
    const name = type.getSymbol()?.name ?? "";
    if ((ids.get(name) ?? type.id) !== type.id) throw new Error(`two types have the name ${name}`);
    if (!ids.has(name)) {
      ids.set(name, type.id);
      named[name] = {};
      named[name] = convertObject(type);
    }
    return { $ref: `#/$defs/${name}` };
  }

  function convertUnion(all: readonly Type[]): JsonSchema {
    const types = all.filter((part) => (part.flags & TypeFlags.Undefined) === 0);
    const literals = types.flatMap((part) => (part.isLiteralType() ? [part.value] : []));
    const others = types
      .filter((part) => !part.isLiteralType())
      .toSorted((a, b) => Number(a.flags === TypeFlags.Null) - Number(b.flags === TypeFlags.Null))
      .map(convert);
    const isBoolean = literals.includes(true) && literals.includes(false);
    const texts = literals.filter((value) => !isBoolean || typeof value !== "boolean");
    const options = [
      ...(isBoolean ? [{ type: "boolean" }] : []),
      ...(texts.length > 0 ? [{ enum: texts }] : []),
      ...others,
    ];
    if (options.length === 1) return options[0] ?? {};
    const simple = options.flatMap((option) =>
      "type" in option && Object.keys(option).length === 1 ? [option.type] : [],
    );
    return simple.length === options.length ? { type: simple } : { anyOf: options };
  }

  function convertObject(type: Type): JsonSchema {
    const members = checker.getPropertiesOfType(type).flatMap((property) => {
      const { type: value, isOptional } = read(property);
      // TypeScript adds the keys of one alternative to the others.
      if ((value.flags & TypeFlags.Undefined) !== 0) return [];
      const description = property.getDocumentationComment(checker);
      const schema = description === "" ? convert(value) : { description, ...convert(value) };
      return [{ name: property.name, schema, isOptional }];
    });
    const [index] = checker.getIndexInfosOfType(type);
    const required = members.filter(({ isOptional }) => !isOptional).map(({ name }) => name);
    return {
      type: "object",
      ...(members.length > 0
        ? { properties: Object.fromEntries(members.map(({ name, schema }) => [name, schema])) }
        : {}),
      ...(required.length > 0 ? { required } : {}),
      ...(index ? { additionalProperties: convert(index.valueType) } : {}),
    };
  }

  function read(property: Symbol): { readonly type: Type; readonly isOptional: boolean } {
    const type = checker.getTypeOfSymbol(property);
    if (!type) throw new Error(`${property.name} has no type`);
    const mayBeUndefined =
      type.isUnionType() && type.getTypes().some((part) => (part.flags & TypeFlags.Undefined) !== 0);
    const isOptional = (property.flags & SymbolFlags.Optional) !== 0 || mayBeUndefined;
    return { type, isOptional };
  }

  return { convert, refer, read, named };
}
