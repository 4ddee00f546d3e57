import { expect, test } from "vitest";
import { parse } from "yaml";
import { columnsSetting, sqlSetting } from "../../src/cli/commands/check-inputs.ts";

test("one column is text, several are a list", () => {
  expect(columnsSetting("key", ["id"])).toBe("key: id");
  expect(columnsSetting("key", ["tenant", "Kd Nr"])).toBe('key: [tenant, "Kd Nr"]');
});

test("names of all kinds are read back unchanged", () => {
  const columns = ["a, b", "c: d", "e #f", "g]", "yes", "null", "7", 'h"', "`i`", "it's", "j\nk"];
  expect(parse(columnsSetting("key", columns))).toEqual({ key: columns });
});

test.each([
  [`"id" is not null`, `where: '"id" is not null'`],
  [`select "a: b" from t`, `where: 'select "a: b" from t'`],
  ["`Kd Nr` is not null", 'where: "`Kd Nr` is not null"'],
])("the SQL %j is a line that YAML reads as the same", (sql, line) => {
  expect(sqlSetting("where", sql)).toBe(line);
  expect(parse(line)).toEqual({ where: sql });
});

test("${ is escaped, because it begins a reference", () => {
  expect(columnsSetting("key", ["${A}"])).toBe('key: "$${A}"');
  expect(sqlSetting("where", '"${A}" > 1')).toBe(`where: '"$\${A}" > 1'`);
});
