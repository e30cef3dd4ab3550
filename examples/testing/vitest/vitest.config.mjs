/** Vitest itself is enough: the constructors name what they inject, so no decorator metadata is needed. */
export default {
  test: { include: ['*.spec.ts'] },
};
