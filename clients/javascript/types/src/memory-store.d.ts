/** A queue's store that lasts as long as the page or process: for tests, and where nothing better is allowed. */
/** A `QueueStore`. */
export declare class MemoryStore {
    #private;
    names(): Promise<string[]>;
    /** @param {string} name */
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
     */
    exclusively<Result>(task: () => Promise<Result>): Promise<Result>;
}
