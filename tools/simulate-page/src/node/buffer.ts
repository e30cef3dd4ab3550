/** Stands in for Node's `Buffer`, as far as the library and the simulated server use it: texts in UTF-8, and bytes. */
export class Buffer extends Uint8Array {
  static override from(source: string | ArrayLike<number> | Iterable<number>): Buffer {
    return new Buffer(
      typeof source === 'string' ? new TextEncoder().encode(source) : Array.from(source),
    );
  }

  static byteLength(text: string): number {
    return new TextEncoder().encode(text).length;
  }

  static isBuffer(value: unknown): value is Buffer {
    return value instanceof Buffer;
  }

  static compare(a: Uint8Array, b: Uint8Array): number {
    const i = a.findIndex((byte, at) => byte !== b[at]);
    if (i === -1) return Math.sign(a.length - b.length);
    return i >= b.length ? 1 : Math.sign((a[i] ?? 0) - (b[i] ?? 0));
  }

  override toString(encoding: 'utf8' | 'hex' = 'utf8'): string {
    if (encoding === 'utf8') return new TextDecoder().decode(this);
    return Array.from(this, (byte) => byte.toString(16).padStart(2, '0')).join('');
  }
}
