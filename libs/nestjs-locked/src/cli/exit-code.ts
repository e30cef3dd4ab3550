/** What the program tells the one that started it; `--help` has the same list. */
export const EXIT_CODE = { done: 0, refused: 1, wrongUse: 2, failed: 3 } as const;

export type ExitCode = (typeof EXIT_CODE)[keyof typeof EXIT_CODE];
