/**
 * The server's REST doors, typed.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator, TranslationBundle } from '@jupyterlab/translation';

import { IAttachment, IVariable } from './attachments';
import { ISessionState } from './frames';
import { PAGE } from './page';

export type PermissionMode = 'ask' | 'edit' | 'auto' | 'plan';

/** When variables come back by themselves into a fresh kernel. */
export type RestoreMode = 'auto' | 'always' | 'ask' | 'never';

export interface IStatus {
  version: string;
  provider: string;
  /** Model of new sessions; `null`: the provider's newest. */
  model: string | null;
  /** Host that conversation content is sent to; `null` if it stays on this machine. */
  endpoint: string | null;
  offline: boolean;
  credentials: 'none' | 'environment' | 'config' | 'stored';
  permission_modes: PermissionMode[];
  default_permission_mode: PermissionMode;
  /** Of all sessions; sizes in bytes. */
  snapshots?: {
    enabled: boolean;
    restore: RestoreMode;
    bytes: number;
    limit_bytes: number;
  };
}

export interface IModelInfo {
  id: string;
  provider: string;
  name: string;
  default: boolean;
  remote: boolean;
}

export interface ISessionSummary {
  id: string;
  notebook: string;
  title: string | null;
  /** UTC, ISO 8601. */
  created: string;
  updated: string;
  /** Number of records. */
  records: number;
  /** Questions that wait for a person. */
  approvals: IWaitingApproval[];
  /** `waiting` is for a person. */
  activity: 'idle' | 'working' | 'waiting';
}

export interface IWaitingApproval {
  call_id: string;
  /** What is asked, in a line. */
  summary: string;
}

/** A notebook that an agent in another process works on. */
export interface INotebookInUse {
  notebook: string;
  /** Address of the other Jupyter server; `null` for a `jupyter prime run`. */
  url: string | null;
  pid: number;
  /** The machine it runs on, if it is not the server's own. */
  host: string | null;
  since: string;
}

/** What goes on at the moment. */
export interface IAgentsAtWork {
  /** Sessions in which the agent works, or waits for a decision that can be made here. */
  sessions: ISessionSummary[];
  elsewhere: INotebookInUse[];
}

export interface ISessionDetail extends ISessionSummary {
  provider: string;
  model: string;
  permission_mode: PermissionMode;
  state?: ISessionState;
  snapshots: {
    on: boolean;
    /** Why they are off. */
    reason: string | null;
    restore: RestoreMode;
    /** Kept on the disk. */
    bytes: number;
  };
}

export interface INewSession {
  notebook: string;
  model?: string;
  permission_mode?: PermissionMode;
  title?: string;
  restore?: RestoreMode;
}

export interface ISessionChanges {
  model?: string;
  permission_mode?: PermissionMode;
  title?: string;
  notebook?: string;
  restore?: RestoreMode;
  /** For all sessions of the notebook; `false` deletes what was saved. */
  snapshots?: boolean;
}

export interface ISnapshotInfo {
  id: string;
  created: string;
  bytes: number;
}

/** A request that the server refused, or that never reached it (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string = ''
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** Typed access to `{base_url}prime/api/`. */
export class PrimeApi {
  constructor(
    readonly serverSettings: ServerConnection.ISettings = ServerConnection.makeSettings(),
    readonly trans: TranslationBundle = nullTranslator.load('prime_ext')
  ) {}

  status(): Promise<IStatus> {
    return this._request('GET', ['status']);
  }

  async models(): Promise<IModelInfo[]> {
    return (await this._request<{ models: IModelInfo[] }>('GET', ['models']))
      .models;
  }

  /** Variables of the notebook's kernel, oldest first; none if it has no kernel. */
  async variables(notebook: string): Promise<IVariable[]> {
    const { variables } = await this._request<{ variables: IVariable[] }>(
      'GET',
      ['variables'],
      { query: { notebook } }
    );
    return variables;
  }

  async sessions(notebook?: string): Promise<ISessionSummary[]> {
    const query = notebook === undefined ? undefined : { notebook };
    const { sessions } = await this._request<{ sessions: ISessionSummary[] }>(
      'GET',
      ['sessions'],
      { query }
    );
    return sessions;
  }

  /** This page's claim to write the notebook goes before those of others. */
  createSession(options: INewSession): Promise<ISessionDetail> {
    return this._request('POST', ['sessions'], {
      body: { ...options, client: PAGE }
    });
  }

  session(id: string): Promise<ISessionDetail> {
    return this._request('GET', ['sessions', id]);
  }

  patchSession(id: string, changes: ISessionChanges): Promise<ISessionDetail> {
    return this._request('PATCH', ['sessions', id], { body: changes });
  }

  deleteSession(id: string): Promise<void> {
    return this._request('DELETE', ['sessions', id]);
  }

  send(
    id: string,
    text: string,
    attachments: IAttachment[] = []
  ): Promise<{ seq: number; queued: boolean }> {
    return this._request('POST', ['sessions', id, 'messages'], {
      body: { text, attachments }
    });
  }

  /** Take back what the agent changed in a turn. */
  revertTurn(id: string, turn: string): Promise<void> {
    return this._request('POST', ['sessions', id, 'turns', turn, 'revert']);
  }

  /** Sessions whose notebook is no longer where it was. */
  async sessionsWithoutNotebook(): Promise<ISessionSummary[]> {
    const { sessions } = await this._request<{ sessions: ISessionSummary[] }>(
      'GET',
      ['sessions'],
      { query: { missing: 'true' } }
    );
    return sessions;
  }

  /** Where agents work, here and in other processes, or wait for a decision. */
  agentsAtWork(): Promise<IAgentsAtWork> {
    return this._request('GET', ['sessions'], { query: { active: 'true' } });
  }

  interrupt(id: string): Promise<void> {
    return this._request('POST', ['sessions', id, 'interrupt']);
  }

  compact(id: string, instructions?: string): Promise<void> {
    return this._request('POST', ['sessions', id, 'compact'], {
      body: instructions ? { instructions } : {}
    });
  }

  /** What can be restored, newest first. */
  async snapshots(id: string): Promise<ISnapshotInfo[]> {
    const { snapshots } = await this._request<{ snapshots: ISnapshotInfo[] }>(
      'GET',
      ['sessions', id, 'snapshots']
    );
    return snapshots;
  }

  /** @param names - Only these; all if left out. */
  restore(id: string, snapshotId: string, names?: string[]): Promise<void> {
    return this._request(
      'POST',
      ['sessions', id, 'snapshots', snapshotId, 'restore'],
      { body: names ? { names } : {} }
    );
  }

  /** Its `restore` then comes to an end. */
  giveUpRestore(id: string, snapshotId: string): Promise<void> {
    return this._request('DELETE', [
      'sessions',
      id,
      'snapshots',
      snapshotId,
      'restore'
    ]);
  }

  decide(
    id: string,
    callId: string,
    decision: 'allow' | 'deny',
    scope: 'once' | 'session' = 'once'
  ): Promise<void> {
    return this._request('POST', ['sessions', id, 'approvals', callId], {
      body: { decision, scope }
    });
  }

  unqueue(id: string, seq: number): Promise<void> {
    return this._request('DELETE', ['sessions', id, 'queue', String(seq)]);
  }

  /**
   * Give the server an API key to keep, unless the model's server refuses it. It is never sent
   * back. `unchecked` says why the model's server could not be asked.
   */
  setCredentials(options: {
    provider: string;
    api_key?: string;
    base_url?: string;
  }): Promise<{ unchecked: string | null }> {
    return this._request('PUT', ['credentials'], { body: options });
  }

  clearCredentials(): Promise<void> {
    return this._request('DELETE', ['credentials']);
  }

  /** URL of a session's stream, with the token where the page has no cookie. */
  streamUrl(id: string, after: number): string {
    const { wsUrl, token, appendToken } = this.serverSettings;
    const url = URLExt.join(wsUrl, NAMESPACE, 'sessions', encode(id), 'stream');
    const query: Record<string, string> = { after: String(after) };
    if (appendToken && token !== '') {
      query.token = token;
    }
    return url + URLExt.objectToQueryString(query);
  }

  private async _request<T>(
    method: string,
    path: string[],
    options: { body?: object; query?: Record<string, string> } = {}
  ): Promise<T> {
    const url =
      URLExt.join(
        this.serverSettings.baseUrl,
        NAMESPACE,
        ...path.map(part => encode(part))
      ) + (options.query ? URLExt.objectToQueryString(options.query) : '');
    const init: RequestInit = { method };
    if (options.body !== undefined) {
      init.body = JSON.stringify(options.body);
      init.headers = { 'Content-Type': 'application/json' };
    }
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(
        url,
        init,
        this.serverSettings
      );
    } catch (reason) {
      if (reason instanceof ServerConnection.NetworkError) {
        throw new ApiError(
          0,
          'server_unreachable',
          this.trans.__('The Jupyter server does not answer.'),
          this.trans.__('Check that it is still running, then try again.')
        );
      }
      throw reason;
    }
    const text = await response.text();
    const body = parseJson(text);
    if (!response.ok) {
      throw new ApiError(
        response.status,
        stringOr(body?.code, 'http_error'),
        stringOr(body?.message, `${response.status} ${response.statusText}`),
        stringOr(body?.hint, '')
      );
    }
    return body as T;
  }
}

const NAMESPACE = 'prime/api';

function encode(part: string): string {
  return encodeURIComponent(part);
}

function stringOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' && value !== '' ? value : otherwise;
}

/** The body as JSON; `undefined` for an empty body or a proxy's error page. */
function parseJson(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
