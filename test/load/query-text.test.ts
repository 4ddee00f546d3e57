import { expect, test } from "vitest";
import { withoutSemicolon } from "../../src/load/inputs/postgres.ts";

test.each([
  ["select 1", "select 1"],
  ["select 1;", "select 1"],
  ["select 1 ; ;\n;", "select 1 "],
  ["select 1; -- done; really", "select 1"],
  ["select 1; /* a /* nested; */ comment */ -- b", "select 1"],
  ["select 1 -- a; b", "select 1 -- a; b"],
  ["select ';'", "select ';'"],
  ["select 'it''s; --' as a;", "select 'it''s; --' as a"],
  ["select E'it\\'s; --';", "select E'it\\'s; --'"],
  ["select e'\\\\';", "select e'\\\\'"],
  ['select 1 as "a;--";', 'select 1 as "a;--"'],
  ["select $$;--$$;", "select $$;--$$"],
  ["select $tag$ $$; $tag$; --", "select $tag$ $$; $tag$"],
  ["select $1;", "select $1"],
  ["select made$$up from t;", "select made$$up from t"],
  ["select /* never closed;", "select /* never closed;"],
  ["", ""],
  [";", ""],
])("the query %j can stand in parentheses as %j", (query, expected) => {
  expect(withoutSemicolon(query)).toBe(expected);
});

test("a query of two statements is left unchanged, for the database to refuse", () => {
  expect(withoutSemicolon("select 1; select 2;")).toBe("select 1; select 2");
});
