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

/** Nest's metadata keys for the pipes of a class or method, and of each parameter of a method. */
const PIPES = '__pipes__';
const PARAMETERS = '__routeArguments__';

/** Pipes of Nest that run synchronously. `ValidationPipe` does unless one of its validators is asynchronous. */
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
 * Whether a pipe, or a parameter decorator of the application, may delay the handler of this request. Nest calls the
 * handler when they are done, even if nobody is waiting for its result by then.
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

/** A pipe is given as a class or as an instance. */
function isImmediate(pipe: unknown): boolean {
  return IMMEDIATE.has(typeof pipe === 'function' ? pipe : (pipe as object).constructor);
}

interface Parameter {
  readonly pipes?: unknown[];
  /** The function of a `createParamDecorator` decorator. */
  readonly factory?: unknown;
}

function parametersOf(context: ExecutionContext): readonly Parameter[] {
  const name = handlerDeclaration(context)?.name;
  if (name === undefined) return [];
  const parameters: unknown = Reflect.getMetadata(PARAMETERS, context.getClass(), name);
  return Object.values((parameters ?? {}) as Record<string, Parameter>);
}
