/** The owner of a parameter that can be named; the type of any other is a sentence, which ends the compiler's error. */
type ValidOwner<Owner, Name, Position> = [Position] extends [number]
  ? [Name] extends [undefined]
    ? '@KeyParam belongs on a parameter of a method, not of the constructor'
    : Owner extends abstract new (...args: never) => unknown
      ? '@KeyParam belongs on a parameter of an instance method'
      : Owner
  : "@KeyParam belongs on a parameter: async take(@KeyParam('id') id: string)";

/** A decorator for the parameters of instance methods. */
export type KeyParamDecorator = <Owner, Name = undefined, Position = undefined>(
  target: ValidOwner<Owner, Name, Position>,
  method?: Name,
  position?: Position,
) => void;
