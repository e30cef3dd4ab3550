import ts from 'typescript';
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { declarationsOf } from './old-names.js';

/** The sources of an application, with their types as far as they are known. */
export interface Project {
  /** The folder of its tsconfig.json. */
  readonly folder: string;
  readonly checker: ts.TypeChecker;
  readonly files: readonly ts.SourceFile[];
}

/**
 * Reads what a tsconfig.json, or the one in a folder, includes.
 *
 * @throws Error if there is no such file, or if it cannot be read
 */
export function openProject(tsconfig: string): Project {
  const path = ts.sys.directoryExists(tsconfig)
    ? resolve(tsconfig, 'tsconfig.json')
    : resolve(tsconfig);
  if (!existsSync(path)) {
    throw new Error(
      `There is no ${path}: run this where your tsconfig.json is, or name one with --project`,
    );
  }
  const parsed = ts.getParsedCommandLineOfConfigFile(
    path,
    { noEmit: true },
    {
      ...ts.sys,
      onUnRecoverableConfigFileDiagnostic: ({ messageText }) => {
        throw new Error(
          `${path} cannot be read: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
        );
      },
    },
  );
  const { options, fileNames, projectReferences } = parsed ?? { options: {}, fileNames: [] };
  const program = ts.createProgram({
    rootNames: fileNames,
    options,
    host: hostFor(options),
    ...(projectReferences && { projectReferences }),
  });
  const files = program
    .getSourceFiles()
    .filter((file) => /\.[cm]?tsx?$/.test(file.fileName) && !file.isDeclarationFile)
    .filter((file) => !program.isSourceFileFromExternalLibrary(file));
  return { folder: dirname(path), checker: program.getTypeChecker(), files };
}

/** Finds modules as the compiler does, except the old libraries: the names that matter are declared here. */
function hostFor(options: ts.CompilerOptions): ts.CompilerHost {
  const host = ts.createCompilerHost(options);
  const cache = ts.createModuleResolutionCache(host.getCurrentDirectory(), (name) =>
    host.getCanonicalFileName(name),
  );
  host.resolveModuleNameLiterals = (literals, from, redirected, settings, file) =>
    literals.map((literal) => {
      const declared = declarationsOf(literal.text);
      if (declared === undefined) {
        const mode = ts.getModeForUsageLocation(file, literal, settings);
        return ts.resolveModuleName(literal.text, from, settings, host, cache, redirected, mode);
      }
      return {
        resolvedModule: {
          resolvedFileName: declared,
          extension: ts.Extension.Dts,
          isExternalLibraryImport: true,
        },
      };
    });
  return host;
}
