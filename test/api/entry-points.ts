import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const LIBRARY = fileURLToPath(new URL('../../libs/nestjs-locked/', import.meta.url));

interface Target {
  readonly types: string;
  readonly default: string;
}

export interface EntryPoint {
  /** `nestjs-locked`, `nestjs-locked/testing` */
  readonly specifier: string;
  /** Files by condition, relative to the package. */
  readonly import: Target;
  readonly require: Target;
}

/** The entry points that package.json names, without `./package.json` itself. */
export function entryPoints(): EntryPoint[] {
  const { exports } = JSON.parse(readFileSync(`${LIBRARY}package.json`, 'utf8')) as {
    exports: Record<string, string | Omit<EntryPoint, 'specifier'>>;
  };
  return Object.entries(exports).flatMap(([path, targets]) =>
    typeof targets === 'string' ? [] : [{ specifier: `nestjs-locked${path.slice(1)}`, ...targets }],
  );
}
