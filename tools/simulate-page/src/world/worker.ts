/**
 * The world, in a thread of its own: what is replaced of the browser here, is not replaced for the page. The library
 * takes some functions when it is loaded, so it comes last.
 */
import '../node/globals.js';
import '../../../simulate/dist/world/virtual-node.js';
import './answers.js';
