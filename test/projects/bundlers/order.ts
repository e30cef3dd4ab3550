/** Other code that has the names of parameters in `app.ts`. */
export const order = { table: 'orders' };
export const from = 'here';

console.error(order.table, from, process.pid > 0);
