#!/usr/bin/env node
import { runCommand } from './run-command.js';

// A reader such as `head` may have seen enough.
process.stdout.on('error', () => process.exit());

process.exitCode = await runCommand(process.argv.slice(2), process.env['REDIS_URL']);
