/**
 * Stands in for `node:crypto`. The hash is SHA-1, which names the scripts; the random functions are replaced before
 * they are used, because a simulated world has no randomness but that of its seed.
 */
import { Buffer } from './buffer.js';

const replaced = (): never => {
  throw new Error('a simulated world has no randomness of its own');
};

const crypto = {
  randomBytes: replaced as (size: number) => Buffer,
  randomUUID: replaced as () => string,
};

export default crypto;

export function randomBytes(size: number): Buffer {
  return crypto.randomBytes(size);
}

export function randomUUID(): string {
  return crypto.randomUUID();
}

/** The only algorithm is SHA-1, the only result is in hexadecimal digits. */
export function createHash(_algorithm: 'sha1'): Hash {
  return new Hash();
}

class Hash {
  #text = '';

  update(text: string): this {
    this.#text += text;
    return this;
  }

  digest(_encoding: 'hex'): string {
    const digest = digests.get(this.#text) ?? sha1(Buffer.from(this.#text));
    digests.set(this.#text, digest);
    return digest;
  }
}

/** Of all texts: the scripts are the same for each process. */
const digests = new Map<string, string>();

/** FIPS 180-4, section 6.1. */
function sha1(message: Uint8Array): string {
  const blocks = Math.ceil((message.length + 9) / 64);
  const padded = new DataView(new ArrayBuffer(blocks * 64));
  message.forEach((byte, i) => padded.setUint8(i, byte));
  padded.setUint8(message.length, 0x80);
  padded.setUint32(blocks * 64 - 4, message.length * 8);
  const state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
  for (let block = 0; block < blocks; block += 1) {
    const words = Array.from({ length: 16 }, (_, i) => padded.getUint32(block * 64 + i * 4));
    for (let i = 16; i < 80; i += 1) {
      const mixed = [3, 8, 14, 16].reduce((sum, back) => sum ^ (words[i - back] as number), 0);
      words.push(rotated(mixed, 1));
    }
    let [a, b, c, d, e] = state as [number, number, number, number, number];
    words.forEach((word, i) => {
      const [f, k] = roundOf(i, b, c, d);
      [a, b, c, d, e] = [(rotated(a, 5) + f + e + k + word) | 0, a, rotated(b, 30), c, d];
    });
    [a, b, c, d, e].forEach((value, i) => (state[i] = ((state[i] as number) + value) | 0));
  }
  return state.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function roundOf(i: number, b: number, c: number, d: number): [f: number, k: number] {
  if (i < 20) return [(b & c) | (~b & d), 0x5a827999];
  if (i < 40) return [b ^ c ^ d, 0x6ed9eba1];
  if (i < 60) return [(b & c) | (b & d) | (c & d), 0x8f1bbcdc];
  return [b ^ c ^ d, 0xca62c1d6];
}

function rotated(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}
