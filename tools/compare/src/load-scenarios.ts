import type { Scenario } from './scenario.js';
import { SCENARIO_NAMES } from './scenario-names.js';

const FOLDER = new URL('./scenarios/', import.meta.url);

export interface NamedScenario extends Scenario {
  readonly name: string;
}

/** @throws Error if there is none with this name */
export async function loadScenario(name: string): Promise<NamedScenario> {
  if (!SCENARIO_NAMES.includes(name)) throw new Error(`There is no scenario '${name}'`);
  const module = (await import(new URL(`${name}.js`, FOLDER).href)) as { scenario: Scenario };
  return { name, ...module.scenario };
}
