/** A promise that starts its work each time it is awaited, as a query of Knex, Mongoose or Prisma does. */
export function lazy<T>(begin: () => Promise<T>): Promise<T> {
  const then: Promise<T>['then'] = (...callbacks) => begin().then(...callbacks);
  return { then } as Promise<T>;
}
