import { generateKeyPairSync, sign } from "node:crypto";

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

/** An untrusted key and certificate for localhost, as PEM. */
export function makeSelfSigned(): { readonly key: string; readonly cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const validity = sequence(der(0x17, Buffer.from("250101000000Z")), der(0x17, Buffer.from("450101000000Z")));
  const subject = sequence(
    der(0x02, hex("01")),
    ECDSA_WITH_SHA256,
    name("localhost"),
    validity,
    name("localhost"),
    publicKey.export({ type: "spki", format: "der" }),
  );
  const signature = sign("sha256", subject, privateKey);
  const certificate = sequence(subject, ECDSA_WITH_SHA256, der(0x03, hex("00"), signature));
  const lines = certificate.toString("base64").replaceAll(/.{64}/gu, "$&\n");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  };
}
