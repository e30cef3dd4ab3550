import {
  DefaultValuePipe,
  type ExecutionContext,
  ParseArrayPipe,
  ParseBoolPipe,
  ParseDatePipe,
  ParseEnumPipe,
  ParseFloatPipe,
  ParseIntPipe,
  ParseUUIDPipe,
  ValidationPipe,
} from '@nestjs/common';
import type { ApplicationConfig } from '@nestjs/core';
import { handlerDeclaration } from './handler-declaration.js';

/** Where Nest writes down which pipes stand on a class or method, and on each parameter of a method. */
const PIPES = '__pipes__';
const PARAMETERS = '__routeArguments__';

/** Pipes of Nest that work at once. `ValidationPipe` does so unless one of its validators waits for something. */
const IMMEDIATE: ReadonlySet<unknown> = new Set([
  DefaultValuePipe,
  ParseArrayPipe,
  ParseBoolPipe,
  ParseDatePipe,
  ParseEnumPipe,
  ParseFloatPipe,
  ParseIntPipe,
  ParseUUIDPipe,
  ValidationPipe,
]);

/**
 * Whether a pipe, or a parameter decorator of the application, may make the handler of this request wait. Nest calls
 * the handler when they are done, even if nobody wants its result any more by then.
 */
export function hasWaitingPipes(
  context: ExecutionContext,
  application: ApplicationConfig | undefined,
): boolean {
  const parameters = parametersOf(context);
  const pipes = [
    ...(application?.getGlobalPipes() ?? []),
    ...(application?.getGlobalRequestPipes().map(({ metatype }) => metatype) ?? []),
    ...[context.getClass(), context.getHandler()].flatMap(
      (target) => (Reflect.getMetadata(PIPES, target) as unknown[] | undefined) ?? [],
    ),
    ...parameters.flatMap((parameter) => parameter.pipes ?? []),
  ];
  return pipes.some((pipe) => !isImmediate(pipe)) || parameters.some(({ factory }) => factory);
}

/** A pipe stands there as its class, or as an object of it. */
function isImmediate(pipe: unknown): boolean {
  return IMMEDIATE.has(typeof pipe === 'function' ? pipe : (pipe as object).constructor);
}

interface Parameter {
  readonly pipes?: unknown[];
  /** What a decorator of `createParamDecorator` calls. */
  readonly factory?: unknown;
}

function parametersOf(context: ExecutionContext): readonly Parameter[] {
  const name = handlerDeclaration(context)?.name;
  if (name === undefined) return [];
  const parameters: unknown = Reflect.getMetadata(PARAMETERS, context.getClass(), name);
  return Object.values((parameters ?? {}) as Record<string, Parameter>);
}
