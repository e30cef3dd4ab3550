/**
 * The rows in what a driver or ORM answers: the list itself, `{ rows }` as from pg and Kysely, or the first element of
 * a pair as from mysql2.
 */
export function rowsOf(answer: unknown): readonly Record<string, unknown>[] {
  if (Array.isArray(answer)) {
    const first: unknown = answer[0];
    return (Array.isArray(first) ? first : answer) as Record<string, unknown>[];
  }
  if (typeof answer === 'object' && answer !== null && 'rows' in answer) return rowsOf(answer.rows);
  return [];
}
