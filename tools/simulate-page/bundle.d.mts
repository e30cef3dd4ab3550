import type { BuildOptions, Metafile } from 'esbuild';

/** What makes code for Node run in a browser. */
export const WORLD: BuildOptions;

/** Writes the page and its world. @returns what was bundled, of each */
export function bundlePage(outdir?: string): Promise<readonly Metafile[]>;
