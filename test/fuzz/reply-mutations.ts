import type { ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../support/seeded-random.ts";

/** Sends a sound body in an odd way, or an odd body instead. */
export type ReplyMutation = (response: ServerResponse, body: Buffer, random: Random) => Promise<void> | void;

const JSON_TYPE = { "content-type": "application/json" };

/** Statuses after which the job continues; those that end it are rarer. */
const STATUSES = [
  201, 202, 203, 204, 205, 206, 207, 400, 402, 408, 409, 413, 415, 422, 425, 429, 500, 501, 502, 503, 504,
  507, 511, 520, 599,
] as const;
const ENDING = [
  300, 301, 302, 303, 304, 307, 308, 401, 403, 404, 405, 410, 418, 426, 431, 451, 600, 999,
] as const;

const ERROR_BODIES = [
  "",
  "null",
  "[]",
  '"no"',
  "{}",
  '{"code":7}',
  '{"code":"rate_limit_reached","message":null,"api_request_id":[]}',
  "<html></html>",
  "\u0000",
  '{"details":[]}',
  '{"details":[null]}',
  '{"details":[{"loc":null}]}',
  '{"details":[{"loc":["body","records","0"],"type":"string_too_long"}]}',
  '{"details":[{"loc":["body","records","-1"]}]}',
  '{"details":[{"loc":["body","records","1e9","emails"]}]}',
  '{"details":[{"loc":["body","records",9007199254740993]}]}',
  '{"details":{"records_available":3}}',
  '{"details":{"records_available":-1}}',
  '{"details":{"records_available":"many"}}',
  '{"details":{"records_available":1e400}}',
  '{"details":{"records_remaining":2.5}}',
  '{"body":{"error_message":"x"},"statusCode":200}',
  '{"code":"__proto__"}',
  `{"details":${"[".repeat(20_000)}${"]".repeat(20_000)}}`,
] as const;

const RETRY_AFTER = [
  "0",
  "0.01",
  "-1",
  "1e3",
  "Infinity",
  "NaN",
  "soon",
  "",
  " ",
  "00",
  "Wed, 21 Oct 2015 07:28:00 GMT",
  "Wed, 99 Foo 2015",
  "2015-10-21",
  "0, 1",
  "٣",
] as const;

function sendStatus(status: number, response: ServerResponse, body: Buffer, random: Random): void {
  const text = random.chance(0.3) ? body : Buffer.from(random.pick(ERROR_BODIES));
  const retryAfter = random.chance(0.5)
    ? { "retry-after": Buffer.from(random.pick(RETRY_AFTER)).toString("latin1") }
    : {};
  const location =
    status >= 300 && status < 400
      ? {
          location: random.pick([
            "",
            "http://",
            "//x",
            "http://elsewhere.invalid/",
            "javascript:1",
            "\u00e9",
          ]),
        }
      : {};
  response.writeHead(status, { ...JSON_TYPE, ...retryAfter, ...location }).end(text);
}

/** All odd replies, by name. */
export const REPLY_MUTATIONS: Readonly<Record<string, ReplyMutation>> = {
  status: (response, body, random) => {
    sendStatus(random.pick(STATUSES), response, body, random);
  },
  status_ending: (response, body, random) => {
    sendStatus(random.chance(0.3) ? random.pick(ENDING) : 503, response, body, random);
  },
  cut: (response, body, random) => {
    response.writeHead(200, { ...JSON_TYPE, "content-length": String(body.length) });
    response.write(body.subarray(0, random.below(body.length)), () => response.destroy());
  },
  cut_in_headers: ({ socket }, _body, random) => {
    const head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n";
    socket?.end(head.slice(0, random.below(head.length)));
  },
  reset: ({ socket }) => void socket?.resetAndDestroy(),
  no_http: ({ socket }, _body, random) =>
    void socket?.end(
      random.pick([
        "hello\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n",
        "\u0000\u0000\u0000",
        "HTTP/9.9 200 OK\r\n\r\n{}",
        "HTTP/1.1 20x OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
      ]),
    ),
  length_too_long: (response, body) => {
    response.socket?.end(
      Buffer.concat([
        Buffer.from(
          `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length + 10}\r\n\r\n`,
        ),
        body,
      ]),
    );
  },
  length_too_short: (response, body) => {
    response.socket?.end(
      Buffer.concat([
        Buffer.from(
          `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Math.max(0, body.length - 10)}\r\n\r\n`,
        ),
        body,
      ]),
    );
  },
  headers_huge: (response, body) => {
    response.writeHead(200, { ...JSON_TYPE, "x-large": "x".repeat(100_000) }).end(body);
  },
};

/** Odd replies with readable answers. */
export const HARMLESS_REPLIES: Readonly<Record<string, ReplyMutation>> = {
  no_type: (response, body) => void response.writeHead(200).end(body),
  other_type: (response, body, random) =>
    void response
      .writeHead(200, {
        "content-type": random.pick([
          "text/html",
          "application/xml; charset=utf-16",
          "",
          "image/png",
          "a/b/c;;;",
        ]),
      })
      .end(body),
  many_headers: (response, body) => {
    for (let i = 0; i < 100; i++) response.setHeader(`x-header-${i}`, ["a", "b"]);
    response
      .writeHead(200, { ...JSON_TYPE, "retry-after": "9999", location: "http://elsewhere.invalid/" })
      .end(body);
  },
  in_pieces: async (response, body, random) => {
    response.writeHead(200, JSON_TYPE);
    for (let at = 0; at < body.length; ) {
      const size = 1 + random.below(body.length);
      response.write(body.subarray(at, at + size));
      at += size;
      await delay(1);
    }
    response.end();
  },
};
