/** Stands in for `node:worker_threads`, which only `renewFrom: 'worker'` needs; no history has it. */
export class Worker {
  constructor() {
    throw new Error('a worker thread is not simulated');
  }
}
