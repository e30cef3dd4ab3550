const NOBODYS_NAME = 'nestjs-locked: nobody has a member of this name';

/** Recognizes auto-mocks, which seem to have every member, those of a stream included. */
export function answersEveryName(result: object): boolean {
  return Reflect.get(result, NOBODYS_NAME) !== undefined;
}
