/** Random numbers from 0 to 1 that are the same for the same seed (xorshift, 32 bits). */
export function seededRandom(seed: number): () => number {
  // This spreads neighbouring seeds apart, and avoids 0, which would stay 0 for ever.
  let state = Math.imul(seed + 1, 0x9e3779b1) | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}
