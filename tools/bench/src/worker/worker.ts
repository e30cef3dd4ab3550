/** A process in which locks are measured. It does one task after the other, and ends with its parent. */
import { type Answer, type Order, TASKS } from './tasks.js';

process.on('message', (order: Order) => void answer(order));
process.on('disconnect', () => process.exit());

async function answer({ task, input }: Order): Promise<void> {
  const tasks = TASKS as Record<string, (input: unknown) => Promise<unknown>>;
  try {
    send({ output: await tasks[task]?.(input) });
  } catch (error) {
    send({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
}

function send(answer: Answer): void {
  process.send?.(answer);
}
