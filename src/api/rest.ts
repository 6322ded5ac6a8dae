/**
 * Typed client of the server's REST API.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { nullTranslator, TranslationBundle } from '@jupyterlab/translation';

import { IAttachment, IVariable } from './attachments';
import { ISessionState } from './frames';
import { PAGE } from './page';

export type PermissionMode = 'ask' | 'edit' | 'auto' | 'plan';

/** When variables are restored automatically into a fresh kernel. */
export type RestoreMode = 'auto' | 'always' | 'ask' | 'never';

export interface IStatus {
  version: string;
  provider: string;
  /** Model of new sessions; `null`: the newest model of the provider. */
  model: string | null;
  /** Host that conversation content is sent to; `null` if it stays on this machine. */
  endpoint: string | null;
  offline: boolean;
  credentials: 'none' | 'environment' | 'config' | 'stored';
  permission_modes: PermissionMode[];
  default_permission_mode: PermissionMode;
  /** Snapshots of all sessions; sizes in bytes. */
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
  /** Approval requests that wait for the user. */
  approvals: IWaitingApproval[];
  /** `waiting`: the agent waits for the user. */
  activity: 'idle' | 'working' | 'waiting';
}

export interface IWaitingApproval {
  call_id: string;
  /** The request, in one line. */
  summary: string;
}

/** A notebook that an agent in another process is working on. */
export interface INotebookInUse {
  notebook: string;
  /** Address of the other Jupyter server; `null` for a `jupyter prime run`. */
  url: string | null;
  pid: number;
  /** Host that the process runs on; `null` if it is the server's own. */
  host: string | null;
  since: string;
}

/** The agents that are active at the moment. */
export interface IAgentsAtWork {
  /** Sessions of this server in which the agent is working or waiting for the user. */
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
    /** Why snapshots are off. */
    reason: string | null;
    restore: RestoreMode;
    /** Size of the snapshots on disk. */
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
  /** Applies to all sessions of the notebook; `false` deletes the saved snapshots. */
  snapshots?: boolean;
}

export interface ISnapshotInfo {
  id: string;
  created: string;
  bytes: number;
  /** The saved variables; other fields of them are not used here. */
  names: Record<string, object>;
}

/** An error response of the server, or a request that never reached it (`status` 0). */
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

  /** List the variables of the notebook's kernel, oldest first; none if it has no kernel. */
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

  /** Create a session for which this page takes precedence over others as the notebook's writer. */
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

  /** Revert the changes that the agent made in a turn. */
  revertTurn(id: string, turn: string): Promise<void> {
    return this._request('POST', ['sessions', id, 'turns', turn, 'revert']);
  }

  /** List the sessions whose notebook no longer exists at its path. */
  async sessionsWithoutNotebook(): Promise<ISessionSummary[]> {
    const { sessions } = await this._request<{ sessions: ISessionSummary[] }>(
      'GET',
      ['sessions'],
      { query: { missing: 'true' } }
    );
    return sessions;
  }

  /** List the active sessions, and the notebooks in use by agents in other processes. */
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

  /** List the snapshots that can be restored, newest first. */
  async snapshots(id: string): Promise<ISnapshotInfo[]> {
    const { snapshots } = await this._request<{ snapshots: ISnapshotInfo[] }>(
      'GET',
      ['sessions', id, 'snapshots']
    );
    return snapshots;
  }

  /** @param names - Names to restore; all if omitted. */
  restore(id: string, snapshotId: string, names?: string[]): Promise<void> {
    return this._request(
      'POST',
      ['sessions', id, 'snapshots', snapshotId, 'restore'],
      { body: names ? { names } : {} }
    );
  }

  /** Cancel a restore. The pending `restore` request then completes. */
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

  /** Send the queued messages, which a stop or an error holds back, if the agent is idle. */
  sendQueued(id: string): Promise<{ sent: boolean }> {
    return this._request('POST', ['sessions', id, 'queue', 'send']);
  }

  unqueue(id: string, seq: number): Promise<void> {
    return this._request('DELETE', ['sessions', id, 'queue', String(seq)]);
  }

  /**
   * Store an API key on the server, unless the model API rejects it. The server never sends the key
   * back. `unchecked` tells why the key could not be checked with the model API.
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

  /** Return the URL of a session's stream, with the token if the server settings require it. */
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
          this.trans.__('The Jupyter server does not respond.'),
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

/** Parse a body as JSON; `undefined` for an empty body or the error page of a proxy. */
function parseJson(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
