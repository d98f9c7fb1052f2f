// The types of Unity's that the package uses, so that it is compiled and run without Unity. Signatures are those of
// Unity 2021.3; what is marked as the stub's own lets tests play the engine's part.
using System;
using System.Collections;
using System.Collections.Generic;

namespace UnityEngine
{
    [Flags]
    public enum HideFlags
    {
        None = 0,
        HideInHierarchy = 1,
    }

    public class Object
    {
        public HideFlags hideFlags { get; set; }

        public static void DontDestroyOnLoad(Object target)
        {
        }
    }

    public class Component : Object
    {
    }

    public class Behaviour : Component
    {
    }

    public class MonoBehaviour : Behaviour
    {
        public Coroutine StartCoroutine(IEnumerator routine)
        {
            Stub.Begin(routine);
            return new Coroutine();
        }
    }

    public sealed class Coroutine
    {
    }

    public sealed class GameObject : Object
    {
        public GameObject(string name)
        {
        }

        public T AddComponent<T>()
            where T : Component, new() => new T();
    }

    public sealed class SerializeField : Attribute
    {
    }

    public static class Application
    {
        public static string persistentDataPath => Stub.Folder;
    }

    public static class Time
    {
        public static double realtimeSinceStartupAsDouble => Stub.NowS;
    }

    public static class PlayerPrefs
    {
        private static readonly Dictionary<string, string> Kept = new Dictionary<string, string>();

        public static string GetString(string key, string defaultValue) =>
            Kept.TryGetValue(key, out var value) ? value : defaultValue;

        public static void SetString(string key, string value) => Kept[key] = value;

        public static void Save()
        {
        }
    }

    public enum EventType
    {
        Repaint = 7,
    }

    public struct Rect
    {
        public Rect(float x, float y, float width, float height)
        {
        }
    }

    public sealed class Event
    {
        public static Event current { get; } = new Event();

        public EventType type => EventType.Repaint;
    }

    public static class GUI
    {
        public static void Label(Rect position, string text)
        {
        }

        public static bool RepeatButton(Rect position, string text) => false;
    }

    public static class Debug
    {
        public static void Log(object message) => Stub.Logged.Add(message.ToString());

        public static void LogWarning(object message) => Stub.Logged.Add(message.ToString());
    }

    /// <summary>The stub's own: the engine, as tests play it.</summary>
    public static class Stub
    {
        private static List<IEnumerator> running = new List<IEnumerator>();

        public static List<string> Logged { get; } = new List<string>();

        public static string Folder { get; set; } = "";

        public static double NowS { get; private set; }

        public static int Running => running.Count;

        /// <summary>As Unity does, run it up to its first yield at once.</summary>
        public static void Begin(IEnumerator routine)
        {
            if (routine.MoveNext())
            {
                running.Add(routine);
            }
        }

        public static void Frame(double seconds)
        {
            NowS += seconds;
            var before = running;
            running = new List<IEnumerator>();
            foreach (var routine in before)
            {
                Begin(routine);
            }
        }
    }
}

namespace UnityEngine.Networking
{
    public class DownloadHandler : IDisposable
    {
        public void Dispose()
        {
        }
    }

    public class DownloadHandlerScript : DownloadHandler
    {
        public DownloadHandlerScript(byte[] preallocatedBuffer)
        {
        }

        /// <summary>The stub's own.</summary>
        public bool Take(byte[] data) => ReceiveData(data, data.Length);

        protected virtual bool ReceiveData(byte[] data, int dataLength) => true;
    }

    public class UploadHandler : IDisposable
    {
        public void Dispose()
        {
        }
    }

    public sealed class UploadHandlerRaw : UploadHandler
    {
        public UploadHandlerRaw(byte[] data)
        {
            Data = data;
        }

        /// <summary>The stub's own.</summary>
        public byte[] Data { get; }
    }

    public sealed class UnityWebRequestAsyncOperation
    {
    }

    public sealed class UnityWebRequest : IDisposable
    {
        public UnityWebRequest(Uri uri, string method)
        {
            this.uri = uri;
            this.method = method;
        }

        public enum Result
        {
            InProgress,
            Success,
            ConnectionError,
            ProtocolError,
            DataProcessingError,
        }

        /// <summary>The stub's own: the request that was sent last.</summary>
        public static UnityWebRequest Last { get; private set; }

        /// <summary>The stub's own: what sending raises.</summary>
        public static Exception Refusal { get; set; }

        public Uri uri { get; }

        public string method { get; }

        public DownloadHandler downloadHandler { get; set; }

        public UploadHandler uploadHandler { get; set; }

        public int redirectLimit { get; set; }

        public bool isDone { get; private set; }

        public long responseCode { get; private set; }

        public Result result { get; private set; }

        public string error { get; private set; }

        /// <summary>The stub's own.</summary>
        public Dictionary<string, string> SentHeaders { get; } = new Dictionary<string, string>();

        /// <summary>The stub's own.</summary>
        public bool IsAborted { get; private set; }

        private Dictionary<string, string> Headers { get; set; }

        public void SetRequestHeader(string name, string value) => SentHeaders[name] = value;

        public string GetResponseHeader(string name) =>
            Headers != null && Headers.TryGetValue(name, out var value) ? value : null;

        public Dictionary<string, string> GetResponseHeaders() => Headers;

        public UnityWebRequestAsyncOperation SendWebRequest()
        {
            if (Refusal != null)
            {
                throw Refusal;
            }

            Last = this;
            return new UnityWebRequestAsyncOperation();
        }

        public void Abort() => IsAborted = true;

        public void Dispose()
        {
        }

        /// <summary>The stub's own: the head of the answer comes.</summary>
        public UnityWebRequest Answer(long status, string contentType)
        {
            responseCode = status;
            Headers = new Dictionary<string, string> { { "Content-Type", contentType } };
            return this;
        }

        /// <summary>The stub's own: a piece of the answer comes; the engine ends it if the handler wants no more.</summary>
        public UnityWebRequest Piece(byte[] data)
        {
            if (!((DownloadHandlerScript)downloadHandler).Take(data))
            {
                End(Result.DataProcessingError, "Unable to write data");
            }

            return this;
        }

        /// <summary>The stub's own: it is over.</summary>
        public void End(Result how, string why = null)
        {
            result = how;
            error = why;
            isDone = true;
        }
    }
}
