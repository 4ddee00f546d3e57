import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const length =
    content.length < 128
      ? Buffer.from([content.length])
      : Buffer.from([0x82, content.length >> 8, content.length & 255]);
  return Buffer.concat([Buffer.from([tag]), length, content]);
}

const sequence = (...parts: readonly Buffer[]) => der(0x30, ...parts);
const hex = (text: string) => Buffer.from(text, "hex");
const ECDSA_WITH_SHA256 = sequence(der(0x06, hex("2a8648ce3d040302")));

/** A name with only a common name. */
function name(commonName: string): Buffer {
  return sequence(der(0x31, sequence(der(0x06, hex("550403")), der(0x0c, Buffer.from(commonName)))));
}

/** A key and its certificate, as PEM. */
export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/** An untrusted key and certificate for localhost. */
export function makeSelfSigned(): Certificate {
  return makeAuthority("localhost");
}

/** An authority of one's own; `certify` makes a certificate of it for a host. */
export function makeAuthority(authority: string) {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const certify = (host: string, key: KeyObject) =>
    certificateOf(name(host), key, { name: name(authority), key: privateKey });
  return {
    key: pem(privateKey),
    cert: certify(authority, publicKey),
    certify(host: string): Certificate {
      const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
      return { key: pem(pair.privateKey), cert: certify(host, pair.publicKey) };
    },
  };
}

const pem = (key: KeyObject) => key.export({ type: "pkcs8", format: "pem" });

function certificateOf(
  host: Buffer,
  key: KeyObject,
  issuer: { readonly name: Buffer; readonly key: KeyObject },
): string {
  const validity = sequence(der(0x17, Buffer.from("250101000000Z")), der(0x17, Buffer.from("450101000000Z")));
  const subject = sequence(
    der(0x02, randomBytes(8).fill(1, 0, 1)),
    ECDSA_WITH_SHA256,
    issuer.name,
    validity,
    host,
    key.export({ type: "spki", format: "der" }),
  );
  const signature = sign("sha256", subject, issuer.key);
  const certificate = sequence(subject, ECDSA_WITH_SHA256, der(0x03, hex("00"), signature));
  const lines = certificate.toString("base64").replaceAll(/.{64}(?!$)/gu, "$&\n");
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}
