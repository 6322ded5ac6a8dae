import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// The workers read this file too: what is decided once goes through the environment.
process.env.PRIME_TEST_STATE ??= mkdtempSync(join(tmpdir(), 'prime-ui-'));

/**
 * The environment of a person who has used Jupyter only here, so that a test run neither reads nor
 * changes what whoever starts it keeps in their own folders.
 */
export function personOf(server: string): Record<string, string> {
  const folder = (part: string): string => {
    const path = join(process.env.PRIME_TEST_STATE!, server, part);
    mkdirSync(path, { recursive: true });
    return path;
  };
  return {
    JUPYTER_CONFIG_DIR: folder('config'),
    JUPYTER_DATA_DIR: folder('data'),
    JUPYTER_RUNTIME_DIR: folder('runtime'),
    JUPYTERLAB_SETTINGS_DIR: folder('settings'),
    JUPYTERLAB_WORKSPACES_DIR: folder('workspaces'),
    JUPYTERLAB_GALATA_ROOT_DIR: folder('root'),
    IPYTHONDIR: folder('ipython'),
    // Never a real model, whatever the person has configured.
    ANTHROPIC_API_KEY: '',
    ANTHROPIC_AUTH_TOKEN: '',
    ANTHROPIC_BASE_URL: '',
    PRIME_API_KEY: ''
  };
}
