/** Puts the job's name before a message, unless the message starts with it. */
export function aboutJob(job: string, message: string): string {
  return message.startsWith(`${job}:`) || message.startsWith(`${job} `) ? message : `${job}: ${message}`;
}
