/** The context of every line that this library writes to the application's log. */
export const LOG_CONTEXT = 'nestjs-locked';
