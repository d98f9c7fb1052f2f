/** A queue's store in a browser: it survives a reload, a killed tab and a restart, and all tabs of a page share it. */
/** A `QueueStore`. */
export declare class IndexedDbStore {
    #private;
    /** @param {string} [name] of the database, if the page's origin has more than one game */
    constructor(name?: string);
    names(): Promise<string[]>;
    /**
     * @param {string} name
     * @returns {Promise<string | null>}
     */
    read(name: string): Promise<string | null>;
    /**
     * @param {string} name
     * @param {string} text
     */
    write(name: string, text: string): Promise<void>;
    /** @param {string} name */
    remove(name: string): Promise<void>;
    /** @param {string} name */
    setAside(name: string): Promise<void>;
    /**
     * @template Result
     * @param {() => Promise<Result>} task
     * @returns {Promise<Result>}
     */
    exclusively<Result>(task: () => Promise<Result>): Promise<Result>;
}
