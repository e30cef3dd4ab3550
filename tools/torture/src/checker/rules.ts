/** A rule. @returns in which ways the facts break it */
export type Rule<Facts> = (facts: Facts) => Iterable<string>;

export interface Violation {
  readonly rule: string;
  readonly text: string;
}

/** Applies rules to facts, in their order. */
export function violationsOf<Facts>(
  rules: Readonly<Record<string, Rule<Facts>>>,
  facts: Facts,
): Violation[] {
  return Object.entries(rules).flatMap(([rule, violationsIn]) =>
    [...violationsIn(facts)].map((text) => ({ rule, text })),
  );
}
