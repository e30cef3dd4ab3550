import type { Plan } from './plan.js';

/**
 * Leaves out of a plan what its finding does not need: processes, faults, calls. Each is tried by itself, until nothing
 * more can go.
 *
 * @param isFound whether a plan still leads to the finding
 */
export async function shorten(
  plan: Plan,
  isFound: (plan: Plan) => Promise<boolean>,
): Promise<Plan> {
  for (;;) {
    const shorter = await firstOf(smaller(plan), isFound);
    if (shorter === undefined) return plan;
    plan = shorter;
  }
}

/** All plans with one thing less, those with the greatest loss first. */
function* smaller(plan: Plan): Iterable<Plan> {
  const { processes, faults } = plan;
  for (const process of processes) {
    yield { ...plan, processes: processes.filter((other) => other !== process) };
  }
  for (const fault of faults) yield { ...plan, faults: faults.filter((other) => other !== fault) };
  for (const process of processes) {
    for (const call of process.calls) {
      const calls = process.calls.filter((other) => other !== call);
      const fewer = processes.map((other) => (other === process ? { ...process, calls } : other));
      yield { ...plan, processes: fewer };
    }
  }
}

async function firstOf(
  plans: Iterable<Plan>,
  isFound: (plan: Plan) => Promise<boolean>,
): Promise<Plan | undefined> {
  for (const plan of plans) if (await isFound(plan)) return plan;
  return undefined;
}
